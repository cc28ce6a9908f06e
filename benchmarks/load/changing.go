package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// inParallel does something `count` times over o.connections workers; `do` says how many answers
// it had. A worker that fails goes on.
func inParallel(o options, do func(worker, number int) (int64, error)) summary {
	tallies := make([]tally, o.connections)
	var next atomic.Int64
	var wait sync.WaitGroup
	watch := startWatch(o.pids)
	for worker := range tallies {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			t := &tallies[worker]
			for number := next.Add(1) - 1; number < int64(o.count); number = next.Add(1) - 1 {
				begun := time.Now()
				answers, err := do(worker, int(number))
				t.answered(time.Since(begun))
				t.answers += answers - 1
				if err != nil {
					t.wrong(err)
				}
			}
		}(worker)
	}
	wait.Wait()
	watched := watch.stop()
	total := tally{}
	for i := range tallies {
		total.add(&tallies[i])
	}
	return total.summary(watched, int64(o.count))
}

// create makes groups of one member each, up to Stable.
func create(o options) (summary, error) {
	workers := make([]*connection, o.connections)
	for i := range workers {
		m, err := joined(o.address, o.groupName(i))
		if err != nil {
			return summary{}, err
		}
		workers[i] = m.connection
	}
	return inParallel(o, func(worker, number int) (int64, error) {
		conn := workers[worker]
		before := conn.answers
		m := &member{connection: conn, group: o.groupName(o.connections + number)}
		err := m.settle()
		return conn.answers - before, err
	}), nil
}

// storm opens connections that ask for versions and for a coordinator, as every client begins.
func storm(o options) (summary, error) {
	first, err := joined(o.address, o.groupName(0))
	if err != nil {
		return summary{}, err
	}
	defer first.Close()
	return inParallel(o, func(_, number int) (int64, error) {
		conn, err := dial(o.address)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		if err := conn.checkVersions(); err != nil {
			return conn.answers, err
		}
		err = conn.findCoordinator(o.groupName(number))
		return conn.answers, err
	}), nil
}

// rebalance has one group of many members join and sync again and again.
func rebalance(o options) (summary, error) {
	members, err := gathered(o)
	if err != nil {
		return summary{}, err
	}
	if _, err := round(members); err != nil { // the first rounds of a run are not like the others
		return summary{}, err
	}
	total := tally{}
	watch := startWatch(o.pids)
	for i := 0; i < o.count; i++ {
		begun := time.Now()
		answers, err := round(members)
		if err != nil {
			return summary{}, err
		}
		total.answered(time.Since(begun))
		total.answers += answers - 1
	}
	return total.summary(watch.stop(), int64(o.count)), nil
}

// gathered makes a group: all but the first wait in their JoinGroup until the first joins again.
func gathered(o options) ([]*member, error) {
	first, err := joined(o.address, o.groupName(0))
	if err != nil {
		return nil, err
	}
	members := []*member{first}
	for len(members) < o.members {
		conn, err := dial(o.address)
		if err != nil {
			return nil, err
		}
		m := &member{connection: conn, group: first.group}
		if err := m.announce(); err != nil {
			return nil, err
		}
		if err := m.sendJoin(); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if err := first.awaitSize(len(members)); err != nil {
		return nil, err
	}
	if err := first.sendJoin(); err != nil {
		return nil, err
	}
	return members, finish(members)
}

func (m *member) awaitSize(members int) error {
	deadline := time.Now().Add(patience)
	for {
		n, err := m.size()
		if err != nil || n == members {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d members have joined", n, members)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// round is a rebalance: the leader joins again, the others hear of it with a heartbeat.
func round(members []*member) (int64, error) {
	var before, after int64
	for _, m := range members {
		before += m.answers
	}
	leader, others := split(members)
	if err := leader.sendJoin(); err != nil {
		return 0, err
	}
	if len(others) > 0 {
		if err := others[0].awaitRebalance(); err != nil {
			return 0, err
		}
	}
	for _, m := range others {
		if err := m.sendJoin(); err != nil {
			return 0, err
		}
	}
	err := finish(members)
	for _, m := range members {
		after += m.answers
	}
	return after - before, err
}

func split(members []*member) (leader *member, others []*member) {
	for _, m := range members {
		if m.isLeader() {
			leader = m
		} else {
			others = append(others, m)
		}
	}
	return leader, others
}

func (m *member) awaitRebalance() error {
	deadline := time.Now().Add(patience)
	for {
		err := m.beat()
		if code, isRefusal := err.(refused); isRefusal && code.code == rebalanceInProgress {
			return nil
		}
		if err != nil || time.Now().After(deadline) {
			return fmt.Errorf("a rebalance that does not begin: %v", err)
		}
	}
}

// finish awaits the answers to everybody's JoinGroup, and has everybody sync.
func finish(members []*member) error {
	for _, m := range members {
		if err := m.receiveJoin(); err != nil {
			return err
		}
		if m.isLeader() && len(m.others) != len(members) {
			return fmt.Errorf("the leader was told of %d of %d members", len(m.others), len(members))
		}
		if err := m.sendSync(); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.receiveSync(); err != nil {
			return err
		}
	}
	return nil
}
