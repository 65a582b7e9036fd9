package goredis_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A workload is what each process of a fleet does: call one bucket, from many
// goroutines, until it is told to stop.
type workload struct {
	Process    int // its number
	Goroutines int
	Addr       string   // of a server, or
	Cluster    []string // of a cluster's nodes, or
	Sentinels  []string // of those that watch "mymaster"

	Budget      time.Duration
	Rate, Burst int64
	Pause       time.Duration // between calls; by default as long as a refusal says
	Mark        bool          // charge a bucket of its own with each call, which counts the charges
}

// An outcome is what the calls of a process came to.
type outcome struct {
	Calls   int
	Late    int     // decisions that took more than longestDecision
	Granted []int64 // when, µs by Redis's clock
	Refused int
	Away    map[string]int // errors for which the backend was unavailable
	Worst   time.Duration  // the longest decision, stalls of the machine taken off
	Gap     time.Duration  // the longest time in which nothing was decided
	Idle    time.Duration  // and at the end
	Faults  []string
}

const (
	fleetVariable = "RATELIMIT_TEST_FLEET"
	fleetReady    = "fleet: ready"
	fleetOutcome  = "fleet: outcome "
)

// A fleet is some processes that run the same workload.
type fleet struct {
	t         *testing.T
	processes []*fleetProcess
}

type fleetProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ready  chan struct{}
	output strings.Builder
	result outcome
	done   chan struct{} // closed when its output has ended
}

// startFleet starts processes, and returns when all are about to call.
func startFleet(t *testing.T, processes int, w workload) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for i := range processes {
		w.Process = i
		f.start(w)
	}
	for _, p := range f.processes {
		select {
		case <-p.ready:
		case <-p.done:
			t.Fatalf("a process of the fleet has ended early:\n%s", p.output.String())
		}
	}
	return f
}

func (f *fleet) start(w workload) {
	f.t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &fleetProcess{
		cmd:   exec.CommandContext(f.t.Context(), os.Args[0], "-test.run=^TestFleetProcess$", "-test.timeout=2m"),
		ready: make(chan struct{}),
		done:  make(chan struct{}),
	}
	p.cmd.Env = append(os.Environ(), fleetVariable+"="+string(text))
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.processes = append(f.processes, p)
	go p.read(stdout)
}

// read reads what the process prints.
func (p *fleetProcess) read(stdout io.Reader) {
	defer close(p.done)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if text, found := strings.CutPrefix(line, fleetOutcome); found {
			_ = json.Unmarshal([]byte(text), &p.result) // a lack of it is found later
		} else if strings.HasPrefix(line, fleetReady) {
			close(p.ready)
		} else {
			p.output.WriteString(line)
		}
		if err != nil {
			return
		}
	}
}

// stop ends the calls and returns what they came to, put together. A process
// that leaves goroutines, or has a race, fails the test.
func (f *fleet) stop() outcome {
	f.t.Helper()
	for _, p := range f.processes {
		_ = p.stdin.Close() // it may have ended, which Wait tells
	}
	all := outcome{Away: map[string]int{}}
	for i, p := range f.processes {
		<-p.done
		if err := p.cmd.Wait(); err != nil {
			f.t.Errorf("process %d of the fleet: %v\n%s", i, err, p.output.String())
		}
		all.Granted = append(all.Granted, p.result.Granted...)
		all.Calls += p.result.Calls
		all.Late += p.result.Late
		all.Refused += p.result.Refused
		for text, n := range p.result.Away {
			all.Away[text] += n
		}
		all.Worst, all.Gap = max(all.Worst, p.result.Worst), max(all.Gap, p.result.Gap)
		all.Idle = max(all.Idle, p.result.Idle)
		all.Faults = append(all.Faults, p.result.Faults...)
	}
	slices.Sort(all.Granted)
	for _, fault := range all.Faults {
		f.t.Error(fault)
	}
	return all
}

// elapsed returns the time from the first to the last grant.
func (o *outcome) elapsed() time.Duration {
	if len(o.Granted) == 0 {
		return 0
	}
	return time.Duration(o.Granted[len(o.Granted)-1]-o.Granted[0]) * time.Microsecond
}

// bound returns how many calls of a workload may be granted in the time, with a
// burst for each time that the state was lost.
func (o *outcome) bound(w workload, losses int64) float64 {
	return float64(w.Burst*(1+losses)) + float64(w.Rate)*o.elapsed().Seconds()
}

// checkWindows fails the test if more than a bucket with nothing lost may grant
// is granted in any window.
func (o *outcome) checkWindows(t *testing.T, w workload) {
	t.Helper()
	perMicro := float64(w.Rate) / 1e6
	least := 0.0 // of number - rate × time, of what came before
	for i, at := range o.Granted {
		drained := float64(i) - perMicro*float64(at-o.Granted[0])
		least = min(least, drained)
		if most := drained - least + 1; most > float64(w.Burst)+1e-3 {
			t.Fatalf("a window that ends with grant %d has %.3f more than its rate, want at most the burst of %d", i, most, w.Burst)
		}
	}
}

// TestFleetProcess is one process of a fleet; by itself it does nothing.
func TestFleetProcess(t *testing.T) {
	text := os.Getenv(fleetVariable)
	if text == "" {
		t.Skip("runs only as a process of another test")
	}
	var w workload
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	var client redis.UniversalClient
	switch {
	case len(w.Cluster) > 0:
		client = dialCluster(t, w.Cluster)
	case len(w.Sentinels) > 0:
		client = dialSentinel(t, "mymaster", w.Sentinels)
	default:
		client = dial(t, w.Addr, 0)
	}
	r := newRunner(t, w, client)
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the test does, too
		close(stop)
	}()
	var callers sync.WaitGroup
	for i := range w.Goroutines {
		callers.Go(func() { r.calls(i, stop) })
	}
	print(fleetReady + "\n")
	<-stop
	callers.Wait()
	result, err := json.Marshal(r.finish())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString(fleetOutcome + string(result) + "\n"); err != nil {
		t.Fatal(err)
	}
}
