package main

import (
	"sync"
	"time"
)

// paced has every connection send a heartbeat every so often, whatever the others do. What one took
// counts from when it was due, so that a server that stands still is not asked less.
func paced(o options) (summary, error) {
	members := make([]*member, o.connections)
	for i := range members {
		m, err := joined(o.address, o.groupName(i))
		if err != nil {
			return summary{}, err
		}
		members[i] = m
	}
	tallies := make([]tally, len(members))
	var wait sync.WaitGroup
	watch := startWatch(o.pids)
	begun := time.Now()
	for i, m := range members {
		wait.Add(1)
		go func(t *tally, m *member, due time.Time) {
			defer wait.Done()
			t.wrong(m.beatAtIntervals(t, due, begun.Add(o.seconds), o.every))
		}(&tallies[i], m, begun.Add(o.every*time.Duration(i)/time.Duration(len(members))))
	}
	wait.Wait()
	watched := watch.stop()
	total := tally{}
	for i := range tallies {
		total.add(&tallies[i])
	}
	return total.summary(watched, total.answers), nil
}

// beatAtIntervals returns the first wrong answer, after which it stops.
func (m *member) beatAtIntervals(t *tally, due, end time.Time, every time.Duration) error {
	for ; due.Before(end); due = due.Add(every) {
		time.Sleep(time.Until(due))
		if err := m.beat(); err != nil {
			return err
		}
		t.answered(time.Since(due))
	}
	return nil
}
