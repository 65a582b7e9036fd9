package redistest

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Stats is what a server has done, since it was started or, as a difference,
// between two moments.
type Stats struct {
	Commands    map[string]CommandStats // by lower-case name; "config|get" for parts of others; of scripts too
	CPU         time.Duration           // the server's main process, of user and system
	Connections int64                   // accepted
	Memory      int64                   // bytes in use at the moment
}

// CommandStats is what a server has done for one command.
type CommandStats struct {
	Calls int64
	Time  time.Duration // in the command, without reading it and writing the reply
}

// Stats asks the server. Asking counts too: as info, and in CPU.
func (s *Server) Stats() Stats {
	s.tb.Helper()
	info, err := s.Client().Info(context.Background(), "everything").Result()
	if err != nil {
		s.tb.Fatalf("redistest: server %s: INFO: %v", s.Addr, err)
	}
	stats := Stats{Commands: map[string]CommandStats{}}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.tb.Fatalf("redistest: server %s: INFO: %v", s.Addr, err)
		}
		return n
	}
	fields := parseInfo(info)
	for name, value := range fields {
		command, found := strings.CutPrefix(name, "cmdstat_")
		if !found {
			continue
		}
		var c CommandStats
		for part := range strings.SplitSeq(value, ",") {
			switch key, n, _ := strings.Cut(part, "="); key {
			case "calls":
				c.Calls = int64(number(n))
			case "usec":
				c.Time = time.Duration(number(n)) * time.Microsecond
			}
		}
		stats.Commands[command] = c
	}
	stats.CPU = time.Duration((number(fields["used_cpu_user"]) + number(fields["used_cpu_sys"])) * float64(time.Second))
	stats.Connections = int64(number(fields["total_connections_received"]))
	stats.Memory = int64(number(fields["used_memory"]))
	return stats
}

// Since returns what was done between before and s.
func (s Stats) Since(before Stats) Stats {
	d := Stats{
		Commands:    maps.Clone(s.Commands),
		CPU:         s.CPU - before.CPU,
		Connections: s.Connections - before.Connections,
		Memory:      s.Memory - before.Memory,
	}
	for name, b := range before.Commands {
		c := d.Commands[name]
		c.Calls -= b.Calls
		c.Time -= b.Time
		if c.Calls == 0 {
			delete(d.Commands, name)
		} else {
			d.Commands[name] = c
		}
	}
	return d
}
