// A member of a consumer group that prints what happens to it as JSON lines.
//
// The fields are those of tests/support/client_events.py. SIGTERM makes it leave.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

type event struct {
	Kind       string  `json:"event"`
	Member     string  `json:"member"`
	At         float64 `json:"at"`
	Generation int32   `json:"generation"`
	Partitions []int32 `json:"partitions,omitempty"`
	Partition  int32   `json:"partition"`
	Offsets    []int64 `json:"offsets,omitempty"`
	Text       string  `json:"text,omitempty"`
}

// printer writes events of several goroutines, one line each.
type printer struct {
	member string
	lock   sync.Mutex
	out    *json.Encoder
}

func (p *printer) print(e event) {
	p.lock.Lock()
	defer p.lock.Unlock()
	e.Member = p.member
	e.At = float64(time.Now().UnixMicro()) / 1e6
	if err := p.out.Encode(e); err != nil {
		os.Exit(1) // nobody reads any more
	}
}

type handler struct {
	topic string
	*printer
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.print(event{Kind: "assigned", Generation: s.GenerationID(), Partitions: s.Claims()[h.topic]})
	return nil
}

func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	h.print(event{Kind: "revoked", Generation: s.GenerationID(), Partitions: s.Claims()[h.topic]})
	return nil
}

func (h *handler) ConsumeClaim(
	s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case <-s.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			h.print(event{
				Kind: "records", Generation: s.GenerationID(),
				Partition: message.Partition, Offsets: []int64{message.Offset},
			})
			s.MarkMessage(message, "")
			if len(claim.Messages()) == 0 {
				s.Commit()
			}
		}
	}
}

func strategy(name string) (sarama.BalanceStrategy, error) {
	switch name {
	case "range":
		return sarama.NewBalanceStrategyRange(), nil
	case "roundrobin":
		return sarama.NewBalanceStrategyRoundRobin(), nil
	case "sticky":
		return sarama.NewBalanceStrategySticky(), nil
	}
	return nil, fmt.Errorf("-strategy %q: expected range, roundrobin or sticky", name)
}

func settings(version, balance string, sessionMs, heartbeatMs int) (*sarama.Config, error) {
	parsed, err := sarama.ParseKafkaVersion(version)
	if err != nil {
		return nil, err
	}
	chosen, err := strategy(balance)
	if err != nil {
		return nil, err
	}
	c := sarama.NewConfig()
	c.Version = parsed
	c.Consumer.Return.Errors = true
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = time.Duration(sessionMs) * time.Millisecond
	c.Consumer.Group.Heartbeat.Interval = time.Duration(heartbeatMs) * time.Millisecond
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{chosen}
	return c, nil
}

func consume(ctx context.Context, group sarama.ConsumerGroup, h *handler) {
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{h.topic}, h); err != nil {
			h.print(event{Kind: "error", Text: err.Error()})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func run() error {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "servers, separated by commas")
	groupID := flag.String("group", "", "group id")
	topic := flag.String("topic", "", "topic")
	name := flag.String("name", "", "this member's name in the events")
	balance := flag.String("strategy", "range", "range, roundrobin or sticky")
	version := flag.String("version", sarama.DefaultVersion.String(), "sarama's Config.Version")
	sessionMs := flag.Int("session-ms", 30000, "session timeout")
	heartbeatMs := flag.Int("heartbeat-ms", 500, "heartbeat interval")
	flag.Parse()

	config, err := settings(*version, *balance, *sessionMs, *heartbeatMs)
	if err != nil {
		return err
	}
	config.ClientID = *name
	h := &handler{topic: *topic, printer: &printer{member: *name, out: json.NewEncoder(os.Stdout)}}
	h.print(event{Kind: "started"})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	group, err := sarama.NewConsumerGroup(strings.Split(*bootstrap, ","), *groupID, config)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			h.print(event{Kind: "error", Text: err.Error()})
		}
	}()
	consume(ctx, group, h)
	if err := group.Close(); err != nil {
		return err
	}
	h.print(event{Kind: "left"})
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
