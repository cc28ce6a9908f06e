package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// question is a request that is asked again and again, and the one right answer to it.
type question struct {
	frame  []byte
	answer []byte
	offset int      // where the frame has the offset to commit, which counts up; 0: it has none
	shared [][]byte // frames of all members that share the connection, sent by turns; nil: one member
}

func askHeartbeat(m *member, _ int) question {
	answer := response(func(w *writer) {
		w.int32(0)
		w.int16(0)
		w.noTags()
	})
	return question{frame: request(heartbeat, m.writeHeartbeat), answer: answer}
}

const firstOffset = 1000

// askCommit counts up the offset of the first partition, so that no two commits are the same.
func askCommit(m *member, partitions int) question {
	at := 0
	frame := request(offsetCommit, func(w *writer) {
		w.text(m.group)
		w.int32(m.generation)
		w.text(m.id)
		w.null() // instance id
		w.count(1)
		w.text(topic)
		w.count(partitions)
		at = len(w.buf) + 4
		for i := 0; i < partitions; i++ {
			w.int32(int32(i))
			w.int64(firstOffset)
			w.int32(-1) // leader epoch
			w.text("")
			w.noTags()
		}
		w.noTags()
		w.noTags()
	})
	answer := response(func(w *writer) {
		w.int32(0)
		w.count(1)
		w.text(topic)
		w.count(partitions)
		for i := 0; i < partitions; i++ {
			w.int32(int32(i))
			w.int16(0)
			w.noTags()
		}
		w.noTags()
		w.noTags()
	})
	return question{frame: frame, answer: answer, offset: at}
}

// askFetchAll asks for every offset of the group without naming topics.
func askFetchAll(m *member, partitions int) question {
	q := fetchOf(m, partitions, firstOffset)
	q.frame = request(offsetFetch, func(w *writer) {
		w.count(1)
		w.text(m.group)
		w.null() // topics
		w.noTags()
		w.int8(0) // pending transactions do not matter
		w.noTags()
	})
	return q
}

func askFetch(m *member, partitions int) question {
	return fetchOf(m, partitions, firstOffset)
}

// fetchOf is answered with `committed` for the first partition and the first offset for all others.
func fetchOf(m *member, partitions int, committed int64) question {
	frame := request(offsetFetch, func(w *writer) {
		w.count(1)
		w.text(m.group)
		w.count(1)
		w.text(topic)
		w.count(partitions)
		for i := 0; i < partitions; i++ {
			w.int32(int32(i))
		}
		w.noTags()
		w.noTags()
		w.int8(0) // pending transactions do not matter
		w.noTags()
	})
	answer := response(func(w *writer) {
		w.int32(0)
		w.count(1)
		w.text(m.group)
		w.count(1)
		w.text(topic)
		w.count(partitions)
		for i := 0; i < partitions; i++ {
			w.int32(int32(i))
			w.int64(committed)
			w.int32(-1)
			w.text("")
			w.int16(0)
			w.noTags()
			committed = firstOffset
		}
		w.noTags()
		w.int16(0)
		w.noTags()
		w.noTags()
	})
	return question{frame: frame, answer: answer}
}

// pump keeps a number of requests of one connection in flight.
type pump struct {
	*member
	question
	inFlight int
	sent     []time.Time // by correlation id modulo inFlight
	out, in  []byte
	unparsed int // bytes in `in`
	asked    int64
	tally
}

func newPump(m *member, q question, inFlight int) *pump {
	return &pump{
		member:   m,
		question: q,
		inFlight: inFlight,
		sent:     make([]time.Time, inFlight),
		in:       make([]byte, max(1<<16, 2*inFlight*len(q.answer))),
	}
}

// run asks until the deadline, and then waits for what is in flight.
func (p *pump) run(deadline time.Time) error {
	now := time.Now()
	if err := p.SetReadDeadline(deadline.Add(patience)); err != nil {
		return err
	}
	if err := p.ask(p.inFlight, now); err != nil {
		return err
	}
	for open := p.inFlight; open > 0; {
		n, err := p.Conn.Read(p.in[p.unparsed:])
		if err != nil {
			return err
		}
		p.unparsed += n
		now = time.Now()
		arrived, err := p.parse(now)
		if err != nil {
			return err
		}
		if now.Before(deadline) {
			if err := p.ask(arrived, now); err != nil {
				return err
			}
		} else {
			open -= arrived
		}
	}
	return nil
}

// ask sends some requests with one write.
func (p *pump) ask(times int, now time.Time) error {
	p.out = p.out[:0]
	for ; times > 0; times-- {
		p.last++
		p.sent[int(p.last)%p.inFlight] = now
		if p.shared != nil {
			p.frame = p.shared[int(p.last)%len(p.shared)]
		}
		binary.BigEndian.PutUint32(p.frame[idInRequest:], uint32(p.last))
		if p.offset > 0 {
			p.asked++
			binary.BigEndian.PutUint64(p.frame[p.offset:], uint64(firstOffset+p.asked))
		}
		p.out = append(p.out, p.frame...)
	}
	_, err := p.Write(p.out)
	return err
}

// parse checks every answer that is complete; the first answer owed has the oldest id.
func (p *pump) parse(now time.Time) (int, error) {
	arrived, at := 0, 0
	for p.unparsed-at >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(p.in[at:]))
		if size > len(p.in) {
			return arrived, fmt.Errorf("an answer of %d bytes, expected %d", size, len(p.answer))
		}
		if p.unparsed-at < size {
			break
		}
		owed := p.owed
		p.owed++
		if !p.isRight(p.in[at:at+size], owed) {
			p.wrong(fmt.Errorf("request %d: % x..., expected % x...", owed,
				head(p.in[at:at+size]), head(p.answer)))
		}
		p.answered(now.Sub(p.sent[int(owed)%p.inFlight]))
		arrived++
		at += size
	}
	p.unparsed = copy(p.in, p.in[at:p.unparsed])
	return arrived, nil
}

func head(frame []byte) []byte { return frame[:min(len(frame), 64)] }

func (p *pump) isRight(frame []byte, owed int32) bool {
	return len(frame) == len(p.answer) &&
		binary.BigEndian.Uint32(frame[idInResponse:]) == uint32(owed) &&
		bytes.Equal(frame[:idInResponse], p.answer[:idInResponse]) &&
		bytes.Equal(frame[idInResponse+4:], p.answer[idInResponse+4:])
}

// steady keeps every connection's questions in flight for some time.
func steady(o options, ask func(*member, int) question) (summary, error) {
	pumps, err := newPumps(o, ask)
	if err != nil {
		return summary{}, err
	}
	if err := runAll(pumps, o.warmup); err != nil {
		return summary{}, err
	}
	total := tally{}
	for _, p := range pumps {
		total.errors += p.errors
		total.remember(p.firstError)
		p.tally = tally{owed: p.owed}
	}
	watch := startWatch(o.pids)
	if err := runAll(pumps, o.seconds); err != nil {
		return summary{}, err
	}
	watched := watch.stop()
	for _, p := range pumps {
		total.add(&p.tally)
		if err := p.checkCommitted(o.partitions); err != nil {
			total.wrong(err)
		}
	}
	return total.summary(watched, total.answers), nil
}

func newPumps(o options, ask func(*member, int) question) ([]*pump, error) {
	pumps := make([]*pump, o.connections)
	for i := range pumps {
		m, err := joined(o.address, o.groupName(i))
		if err != nil {
			return nil, err
		}
		pumps[i] = newPump(m, ask(m, o.partitions), o.inFlight)
		if err := pumps[i].share(o, i); err != nil {
			return nil, err
		}
		if o.mode == "fetch" || o.mode == "fetch-all" {
			commit := newPump(m, askCommit(m, o.partitions), 1)
			commit.asked = -1
			commit.owed = m.last + 1
			if err := commit.run(time.Now()); err != nil || commit.errors > 0 {
				return nil, fmt.Errorf("a commit before the fetches: %v %v", err, commit.firstError)
			}
		}
		pumps[i].owed = m.last + 1
	}
	return pumps, nil
}

// share has further members join over the connection, each in a group of its own.
func (p *pump) share(o options, number int) error {
	if o.mode != "heartbeat" || o.share < 2 {
		return nil
	}
	p.shared = [][]byte{p.frame}
	for len(p.shared) < o.share {
		other := &member{connection: p.connection, group: o.groupName(number + o.connections*len(p.shared))}
		if err := other.settle(); err != nil {
			return err
		}
		p.shared = append(p.shared, askHeartbeat(other, 0).frame)
	}
	return nil
}

// checkCommitted fetches the last acknowledged offset back.
func (p *pump) checkCommitted(partitions int) error {
	if p.offset == 0 {
		return nil
	}
	check := newPump(p.member, fetchOf(p.member, partitions, firstOffset+p.asked), 1)
	check.owed = p.last + 1
	if err := check.run(time.Now()); err != nil {
		return err
	}
	return check.firstError
}

func runAll(pumps []*pump, duration time.Duration) error {
	if duration <= 0 {
		return nil
	}
	deadline := time.Now().Add(duration)
	failures := make([]error, len(pumps))
	var wait sync.WaitGroup
	for i, p := range pumps {
		wait.Add(1)
		go func(i int, p *pump) {
			defer wait.Done()
			failures[i] = p.run(deadline)
		}(i, p)
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
