package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

const patience = 60 * time.Second

// connection asks one thing after another.
type connection struct {
	net.Conn
	buffered *bufio.Reader
	last     int32
	answers  int64
	port     int32 // of the coordinator that was found last
}

func dial(address string) (*connection, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, buffered: bufio.NewReaderSize(conn, 4096)}, nil
}

func (c *connection) send(frame []byte) error {
	c.last++
	binary.BigEndian.PutUint32(frame[idInRequest:], uint32(c.last))
	_, err := c.Write(frame)
	return err
}

// receive reads the answer to the last request, up to its body.
func (c *connection) receive(api int16) (*reader, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.buffered, size[:]); err != nil {
		return nil, err
	}
	r := &reader{buf: make([]byte, binary.BigEndian.Uint32(size[:]))}
	if _, err := io.ReadFull(c.buffered, r.buf); err != nil {
		return nil, err
	}
	c.answers++
	if id := r.int32(); id != c.last {
		return nil, fmt.Errorf("the answer to request %d came as %d", c.last, id)
	}
	if api != withoutTags {
		r.tags()
	}
	return r, r.err
}

func (c *connection) ask(api int16, body func(*writer)) (*reader, error) {
	if err := c.send(request(api, body)); err != nil {
		return nil, err
	}
	return c.receive(api)
}

// ready repeats what a starting coordinator refuses.
func ready(what func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := what()
		code, isRefusal := err.(refused)
		starting := isRefusal && code.code >= 14 && code.code <= 16
		if err == nil || !starting || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *connection) checkVersions() error {
	r, err := c.ask(apiVersions, func(w *writer) {
		w.text(clientID)
		w.text("1")
		w.noTags()
	})
	if err != nil {
		return err
	}
	r.noError("ApiVersions")
	if n := r.count(); r.err == nil && n < 10 {
		return fmt.Errorf("ApiVersions: %d APIs", n)
	}
	return r.err
}

func (c *connection) findCoordinator(group string) error {
	r, err := c.ask(findCoordinator, func(w *writer) {
		w.int8(0)
		w.count(1)
		w.text(group)
		w.noTags()
	})
	if err != nil {
		return err
	}
	r.int32() // throttle time
	if n := r.count(); n != 1 {
		return fmt.Errorf("FindCoordinator: %d answers to one question", n)
	}
	key := r.text()
	r.int32() // node id
	host, port := r.text(), r.int32()
	r.noError("FindCoordinator")
	c.port = port
	if r.err == nil && (key != group || host == "" || port <= 0) {
		return fmt.Errorf("FindCoordinator of %s: %s at %s:%d", group, key, host, port)
	}
	return r.err
}

const alreadyExists = 36

func (c *connection) createTopic(name string, partitions int32) error {
	r, err := c.ask(createTopics, func(w *writer) {
		w.count(1)
		w.text(name)
		w.int32(partitions)
		w.int16(1)
		w.count(0) // assignments
		w.count(0) // configs
		w.noTags()
		w.int32(30_000)
		w.int8(0) // not only validate
		w.noTags()
	})
	if err != nil {
		return err
	}
	r.int32() // throttle time
	r.count()
	r.text()
	if code := r.int16(); r.err == nil && code != 0 && code != alreadyExists {
		return refused{"CreateTopics", code}
	}
	return r.err
}
