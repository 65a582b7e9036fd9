package redistest

import "context"

// A Move is a slot on its way from one master to another, step by step, so
// that a test may act in between:
//
//	move := cluster.StartMove(slot, to) // From answers ASK for keys that it lacks
//	move.Keys()                         // and now lacks all
//	move.Finish()                       // From answers MOVED
//
// Until all keys of a command are on one side, it is answered TRYAGAIN.
type Move struct {
	Slot     int
	From, To *Server

	c            *Cluster
	fromID, toID string
}

// StartMove marks a slot as migrating where it is and as importing at to.
func (c *Cluster) StartMove(slot int, to *Server) *Move {
	c.tb.Helper()
	from := c.MasterOf(slot)
	m := &Move{Slot: slot, From: from, To: to, c: c, fromID: c.id(from), toID: c.id(to)}
	if from == to {
		c.tb.Fatalf("redistest: slot %d is at %s already", slot, to.Addr)
	}
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", m.fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", m.toID)
	return m
}

// Keys moves the named keys, or all of the slot if none is named.
func (m *Move) Keys(keys ...string) {
	m.c.tb.Helper()
	for {
		batch := keys
		if len(keys) == 0 {
			var err error
			batch, err = m.From.Client().ClusterGetKeysInSlot(context.Background(), m.Slot, 1000).Result()
			if err != nil {
				m.c.tb.Fatalf("redistest: keys of slot %d at %s: %v", m.Slot, m.From.Addr, err)
			}
			if len(batch) == 0 {
				return
			}
		}
		args := []any{"MIGRATE", "127.0.0.1", m.To.port.number, "", 0, 5000}
		if m.To.password != "" {
			args = append(args, "AUTH", m.To.password)
		}
		args = append(args, "KEYS")
		for _, key := range batch {
			args = append(args, key)
		}
		m.From.Do(args...)
		if len(keys) > 0 {
			return
		}
	}
}

// Finish gives the slot to its new master, and returns when all agree. What
// keys are left at the old one have to move first.
func (m *Move) Finish() {
	m.c.tb.Helper()
	// The new one first: in between both know somebody who serves the slot.
	for _, s := range append([]*Server{m.To, m.From}, m.c.Masters()...) {
		s.Do("CLUSTER", "SETSLOT", m.Slot, "NODE", m.toID)
	}
	m.c.Settle()
}

// Cancel leaves the slot where it is. What keys have gone have to come back
// first.
func (m *Move) Cancel() {
	m.c.tb.Helper()
	m.To.Do("CLUSTER", "SETSLOT", m.Slot, "STABLE")
	m.From.Do("CLUSTER", "SETSLOT", m.Slot, "STABLE")
}

// MoveSlot moves a slot with its keys to another master.
func (c *Cluster) MoveSlot(slot int, to *Server) {
	c.tb.Helper()
	m := c.StartMove(slot, to)
	m.Keys()
	m.Finish()
}
