package main

import (
	"math/bits"
	"os"
	"strconv"
	"strings"
	"time"
)

const subBuckets = 64

// tally counts answers and how long they took: in buckets 1/64 of a power of two wide.
type tally struct {
	answers    int64
	errors     int64
	firstError error
	owed       int32 // correlation id of the answer expected next
	buckets    [64 * subBuckets]int64
}

func (t *tally) answered(took time.Duration) {
	t.answers++
	t.buckets[bucketOf(uint64(took))]++
}

func (t *tally) wrong(err error) {
	if err == nil {
		return
	}
	t.errors++
	t.remember(err)
}

func (t *tally) remember(err error) {
	if t.firstError == nil {
		t.firstError = err
	}
}

func (t *tally) add(other *tally) {
	t.answers += other.answers
	t.errors += other.errors
	t.remember(other.firstError)
	for i, n := range other.buckets {
		t.buckets[i] += n
	}
}

func bucketOf(nanoseconds uint64) int {
	if nanoseconds < subBuckets {
		return int(nanoseconds)
	}
	power := bits.Len64(nanoseconds) - 7
	return (power+1)*subBuckets + int(nanoseconds>>power)&(subBuckets-1)
}

func lowerBound(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	return uint64(subBuckets+bucket%subBuckets) << (bucket/subBuckets - 1)
}

// quantile is in microseconds.
func (t *tally) quantile(q float64) float64 {
	var total, seen int64
	for _, n := range t.buckets {
		total += n
	}
	for i, n := range t.buckets {
		seen += n
		if n > 0 && float64(seen) >= q*float64(total) {
			return float64(lowerBound(i)) / 1000
		}
	}
	return 0
}

// summary is what is printed.
type summary struct {
	Mode        string    `json:"mode"`
	Connections int       `json:"connections"`
	InFlight    int       `json:"in_flight"`
	Partitions  int       `json:"partitions"`
	Members     int       `json:"members"`
	Operations  int64     `json:"operations"` // heartbeats, commits, groups, connections, rebalances
	Answers     int64     `json:"answers"`
	Errors      int64     `json:"errors"`
	FirstError  string    `json:"first_error,omitempty"`
	Seconds     float64   `json:"seconds"`
	P50         float64   `json:"p50_us"` // of an operation
	P99         float64   `json:"p99_us"`
	P999        float64   `json:"p999_us"`
	CPU         float64   `json:"server_cpu_seconds"`      // 0 without -pid
	Each        []float64 `json:"server_cpu_seconds_each"` // by process
	RSSBefore   int64     `json:"server_rss_before"`       // bytes
	RSSAfter    int64     `json:"server_rss_after"`
}

func (t *tally) summary(w watched, operations int64) summary {
	s := summary{
		Operations: operations,
		Answers:    t.answers,
		Errors:     t.errors,
		Seconds:    w.seconds,
		P50:        t.quantile(0.5),
		P99:        t.quantile(0.99),
		P999:       t.quantile(0.999),
		CPU:        w.cpu,
		Each:       w.each,
		RSSBefore:  w.rssBefore,
		RSSAfter:   w.rssAfter,
	}
	if t.firstError != nil {
		s.FirstError = t.firstError.Error()
	}
	return s
}

// watch observes the server's processes while it is measured.
type watch struct {
	pids  []int
	begun time.Time
	cpu   []float64
	rss   int64
}

type watched struct {
	seconds, cpu        float64
	each                []float64
	rssBefore, rssAfter int64
}

func startWatch(pids []int) watch {
	return watch{pids, time.Now(), of(pids, cpuSeconds), sum(of(pids, rss))}
}

func of[number int64 | float64](pids []int, figure func(int) number) []number {
	figures := make([]number, len(pids))
	for i, pid := range pids {
		figures[i] = figure(pid)
	}
	return figures
}

func sum[number int64 | float64](figures []number) number {
	var total number
	for _, each := range figures {
		total += each
	}
	return total
}

func (w watch) stop() watched {
	seconds := time.Since(w.begun).Seconds()
	each := of(w.pids, cpuSeconds)
	for i, before := range w.cpu {
		each[i] -= before
	}
	return watched{seconds, sum(each), each, w.rss, sum(of(w.pids, rss))}
}

// cpuSeconds is user and system time of all threads, in steps of a hundredth.
func cpuSeconds(pid int) float64 {
	fields := procFields(pid, "stat")
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

func rss(pid int) int64 {
	fields := procFields(pid, "stat")
	if len(fields) < 22 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	return pages * int64(os.Getpagesize())
}

// procFields are those behind the command's name, which may hold spaces.
func procFields(pid int, name string) []string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	_, behind, _ := strings.Cut(string(text), ") ")
	return strings.Fields(behind)
}
