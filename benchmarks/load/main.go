// Load for a group coordinator: cheap per request, so that it measures the server and not itself.
//
// Every answer is checked, mostly byte by byte against the only right one; what is wrong is counted.
// Groups are new in every run and have members that have truly joined. A JSON object is printed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

type options struct {
	address, mode                                                   string
	connections, inFlight, partitions, members, count, avoid, share int
	seconds, warmup, every                                          time.Duration
	pids                                                            []int
	run                                                             int64
}

// groupName is new in every run, and not of the partition of the log that is to be avoided.
func (o options) groupName(i int) string {
	name := fmt.Sprintf("load-%x-%d", o.run, i)
	for logPartition(name) == o.avoid {
		name += "x"
	}
	return name
}

// logPartition is Kafka's Utils.abs(groupId.hashCode()) % 50, for ASCII.
func logPartition(group string) int {
	var hash int32
	for _, c := range group {
		hash = 31*hash + c
	}
	return int(max(hash, -hash, 0)) % 50
}

var modes = map[string]func(options) (summary, error){
	"heartbeat": func(o options) (summary, error) { return steady(o, askHeartbeat) },
	"commit":    func(o options) (summary, error) { return steady(o, askCommit) },
	"fetch":     func(o options) (summary, error) { return steady(o, askFetch) },
	"fetch-all": func(o options) (summary, error) { return steady(o, askFetchAll) },
	"create":    create,
	"storm":     storm,
	"rebalance": rebalance,
	"paced":     paced,
}

const modeNames = "heartbeat, commit, fetch, fetch-all, create, storm, rebalance or paced"

func parsed() options {
	o := options{run: time.Now().UnixNano()}
	flag.StringVar(&o.address, "address", "127.0.0.1:9092", "the server's host:port")
	flag.StringVar(&o.mode, "mode", "heartbeat", modeNames)
	flag.IntVar(&o.connections, "connections", 16, "connections, each with a group of its own")
	flag.IntVar(&o.inFlight, "in-flight", 1, "heartbeat, commit, fetch: requests in flight per connection")
	flag.IntVar(&o.partitions, "partitions", 1, "commit, fetch: partitions of a request")
	flag.IntVar(&o.members, "members", 100, "rebalance: members of the group, each with a connection")
	flag.IntVar(&o.count, "count", 1000, "create, storm, rebalance: how many groups, connections, rebalances")
	flag.IntVar(&o.share, "share", 1, "heartbeat: members of each connection, each with a group of its own")
	flag.IntVar(&o.avoid, "avoid", -1, "the partition of the log that no group is to be in")
	flag.DurationVar(&o.every, "every", 10*time.Millisecond, "paced: how often each connection sends a heartbeat")
	flag.DurationVar(&o.seconds, "time", 3*time.Second, "heartbeat, commit, fetch, paced: how long to measure")
	flag.DurationVar(&o.warmup, "warmup", time.Second, "heartbeat, commit, fetch: how long before that")
	pids := flag.String("pid", "", "the server's process, or several, whose CPU time and memory are reported")
	flag.Parse()
	o.pids = numbers(*pids)
	return o
}

// numbers are separated by commas; what is none is left out.
func numbers(text string) []int {
	found := []int{}
	for _, part := range strings.Split(text, ",") {
		if n, err := strconv.Atoi(part); err == nil {
			found = append(found, n)
		}
	}
	return found
}

func run(o options) (summary, error) {
	mode := modes[o.mode]
	if mode == nil {
		return summary{}, fmt.Errorf("-mode %q: expected %s", o.mode, modeNames)
	}
	conn, err := dial(o.address)
	if err != nil {
		return summary{}, err
	}
	defer conn.Close()
	if err := conn.createTopic(topic, int32(max(o.partitions, 100))); err != nil {
		return summary{}, err
	}
	s, err := mode(o)
	s.Mode, s.Connections, s.InFlight = o.mode, o.connections, o.inFlight
	s.Partitions, s.Members = o.partitions, o.members
	return s, err
}

func main() {
	s, err := run(parsed())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
}
