package main

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
)

const (
	memberIDRequired    = 79
	rebalanceInProgress = 27
	sessionTimeout      = 1_800_000 // milliseconds: no member expires while others are measured
	rebalanceTimeout    = 60_000
	topic               = "load"
	protocolType        = "consumer"
	protocol            = "range"
)

var subscription, assignment = blob(1), blob(2)

// blob is a subscription or an assignment of the consumer protocol, version 0.
func blob(partitions int) []byte {
	w := &writer{}
	w.int16(0)
	w.int32(1)
	w.int16(int16(len(topic)))
	w.buf = append(w.buf, topic...)
	if partitions > 1 {
		w.int32(int32(partitions))
		for i := 0; i < partitions; i++ {
			w.int32(int32(i))
		}
	}
	w.int32(-1)
	return w.buf
}

// member is a client's side of a group.
type member struct {
	*connection
	group      string
	id         string
	generation int32
	others     []string // ids of all members, known to the leader alone
}

func (m *member) isLeader() bool { return m.others != nil }

func (m *member) sendJoin() error {
	return m.send(request(joinGroup, func(w *writer) {
		w.text(m.group)
		w.int32(sessionTimeout)
		w.int32(rebalanceTimeout)
		w.text(m.id)
		w.null() // instance id
		w.text(protocolType)
		w.count(1)
		w.text(protocol)
		w.bytes(subscription)
		w.noTags()
		w.null() // reason
		w.noTags()
	}))
}

func (m *member) receiveJoin() error {
	r, err := m.receive(joinGroup)
	if err != nil {
		return err
	}
	r.int32() // throttle time
	code := r.int16()
	generation := r.int32()
	r.text() // protocol type
	chosen, leader := r.text(), r.text()
	r.int8() // skip assignment
	id := r.text()
	if r.err == nil && code != 0 {
		if code == memberIDRequired && id != "" && m.id == "" {
			m.id = id
		}
		return refused{"JoinGroup", code}
	}
	m.readMembers(r)
	if r.err == nil && (id != m.id || chosen != protocol || (leader == id) != m.isLeader()) {
		return fmt.Errorf("JoinGroup of %s: %s led by %s with %s", m.id, id, leader, chosen)
	}
	if r.err == nil && generation <= m.generation {
		return fmt.Errorf("JoinGroup: generation %d after %d", generation, m.generation)
	}
	m.generation = generation
	return r.err
}

func (m *member) readMembers(r *reader) {
	n := r.count()
	m.others = nil
	for ; n > 0 && r.err == nil; n-- {
		m.others = append(m.others, r.text())
		r.bytes() // instance id
		if metadata := r.bytes(); r.err == nil && !bytes.Equal(metadata, subscription) {
			r.err = fmt.Errorf("JoinGroup: another member's metadata is not what it sent")
		}
		r.tags()
	}
}

// announce gets a member id.
func (m *member) announce() error {
	return ready(func() error {
		if err := m.sendJoin(); err != nil {
			return err
		}
		err := m.receiveJoin()
		if code, isRefusal := err.(refused); isRefusal && code.code == memberIDRequired {
			return nil
		}
		if err == nil {
			return fmt.Errorf("JoinGroup without a member id was taken")
		}
		return err
	})
}

func (m *member) sendSync() error {
	return m.send(request(syncGroup, func(w *writer) {
		w.text(m.group)
		w.int32(m.generation)
		w.text(m.id)
		w.null() // instance id
		w.text(protocolType)
		w.text(protocol)
		w.count(len(m.others))
		for _, id := range m.others {
			w.text(id)
			w.bytes(assignment)
			w.noTags()
		}
		w.noTags()
	}))
}

func (m *member) receiveSync() error {
	r, err := m.receive(syncGroup)
	if err != nil {
		return err
	}
	r.int32() // throttle time
	r.noError("SyncGroup")
	r.text() // protocol type
	chosen, assigned := r.text(), r.bytes()
	if r.err == nil && (chosen != protocol || !bytes.Equal(assigned, assignment)) {
		return fmt.Errorf("SyncGroup: %d bytes of %s are not what the leader sent", len(assigned), chosen)
	}
	return r.err
}

func (m *member) join() error {
	if err := m.sendJoin(); err != nil {
		return err
	}
	return m.receiveJoin()
}

func (m *member) sync() error {
	if err := m.sendSync(); err != nil {
		return err
	}
	return m.receiveSync()
}

// settle makes a group of one member, up to Stable.
func (m *member) settle() error {
	if err := m.announce(); err != nil {
		return err
	}
	if err := m.join(); err != nil {
		return err
	}
	return m.sync()
}

func joined(address, group string) (*member, error) {
	conn, err := dial(address)
	if err != nil {
		return nil, err
	}
	m := &member{connection: conn, group: group}
	if err := ready(func() error { return m.findCoordinator(group) }); err != nil {
		return nil, err
	}
	if err := m.moveTo(address); err != nil {
		return nil, err
	}
	return m, m.settle()
}

// moveTo goes to the coordinator where that is another worker than the one that was asked.
func (m *member) moveTo(address string) error {
	host, port, err := net.SplitHostPort(address)
	found := strconv.Itoa(int(m.port))
	if err != nil || found == port {
		return err
	}
	m.Close()
	m.connection, err = dial(net.JoinHostPort(host, found))
	return err
}

func (m *member) beat() error {
	r, err := m.ask(heartbeat, m.writeHeartbeat)
	if err != nil {
		return err
	}
	r.int32() // throttle time
	r.noError("Heartbeat")
	return r.err
}

func (m *member) writeHeartbeat(w *writer) {
	w.text(m.group)
	w.int32(m.generation)
	w.text(m.id)
	w.null() // instance id
	w.noTags()
}

// size is how many members the coordinator counts.
func (m *member) size() (int, error) {
	r, err := m.ask(describeGroups, func(w *writer) {
		w.count(1)
		w.text(m.group)
		w.int8(0) // no authorized operations
		w.noTags()
	})
	if err != nil {
		return 0, err
	}
	r.int32() // throttle time
	r.count()
	r.noError("DescribeGroups")
	for i := 0; i < 4; i++ {
		r.text() // group, state, protocol type, protocol
	}
	return r.count(), r.err
}
