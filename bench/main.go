// Command bench compares this library with others and with the least that a
// decision can cost, and prints what it finds as ratios beside their budgets:
//
//	go run .              # measure all, print tables
//	go run . -run zipf    # some of it
//	go run . -write       # put the tables into README.md too
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/protolimit/ratelimit/bench/faults"
	"github.com/protolimit/ratelimit/bench/harness"
	"github.com/protolimit/ratelimit/bench/inprocess"
	"github.com/protolimit/ratelimit/bench/overredis"
	"github.com/protolimit/ratelimit/bench/rivals"
)

// experiments are all that can be measured, section by section.
func experiments() []*harness.Experiment {
	return slices.Concat(inprocess.Experiments(), overredis.Experiments(), faults.Experiments())
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program: tables go to out, progress to log.
func run(args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	rounds := flags.Int("rounds", 8, "how many rounds each experiment takes; 6 or more for figures to keep")
	match := flags.String("run", "", "measure only the experiments whose names match this `regexp`: "+strings.Join(names(), ", "))
	quick := flags.Bool("quick", false, "one short round on few keys: whether it runs, not how fast")
	write := flags.Bool("write", false, "put the tables into README.md; only whole sections are written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*match)
	if err != nil {
		return err
	}
	o := harness.Options{
		Rounds: *rounds, Keys: 1_000_000, Rest: 3 * time.Second,
		Hot:  harness.Slice{Warm: time.Millisecond, Parts: 4},
		Cold: harness.Slice{Warm: 30 * time.Millisecond, Parts: 40},
		Busy: 150 * time.Millisecond, Phase: 1500 * time.Millisecond,
	}
	if *quick {
		short := harness.Slice{Warm: 100 * time.Microsecond, Parts: 1}
		o = harness.Options{Rounds: 1, Keys: 5000, Rest: 50 * time.Millisecond, Hot: short, Cold: short, Busy: 5 * time.Millisecond, Phase: 30 * time.Millisecond}
	}
	if o.Rounds < 1 {
		return fmt.Errorf("-rounds is %d, want 1 or more", o.Rounds)
	}
	start := harness.Machine(time.Now())
	sections, err := measure(pattern, o, log)
	if err != nil {
		return err
	}
	for _, s := range sections {
		text := "\n" + s.provenance(start, o) + "\n\n" + harness.Report(s.results) + "\n"
		fmt.Fprintf(out, "## %s\n%s", s.name, text)
		if *write {
			if err := s.write(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// A section is what was measured for one table.
type section struct {
	name    string
	results []*harness.Result
}

// measure runs the experiments that match.
func measure(pattern *regexp.Regexp, o harness.Options, log io.Writer) ([]*section, error) {
	var sections []*section
	for _, e := range experiments() {
		if !pattern.MatchString(e.ID()) {
			continue
		}
		fmt.Fprintf(log, "%-30s", e.ID())
		result, err := harness.Run(e, o)
		if err != nil {
			fmt.Fprintln(log)
			return nil, err
		}
		fmt.Fprintf(log, "%5.1f s\n", result.Took.Seconds())
		if len(sections) == 0 || sections[len(sections)-1].name != e.Section {
			sections = append(sections, &section{name: e.Section})
		}
		s := sections[len(sections)-1]
		s.results = append(s.results, result)
	}
	if sections == nil {
		return nil, fmt.Errorf("-run matches none of %s", strings.Join(names(), ", "))
	}
	return sections, nil
}

// page is what -write writes to, in the directory of this program.
const page = "README.md"

// write puts a whole section into the page.
func (s *section) write(text string) error {
	for _, e := range experiments() {
		measured := slices.ContainsFunc(s.results, func(r *harness.Result) bool { return r.Experiment.ID() == e.ID() })
		if e.Section == s.name && !measured {
			return fmt.Errorf("-write: section %q lacks %s, want all of its experiments", s.name, e.ID())
		}
	}
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := harness.Replace(string(document), s.name, text)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec // a page for everybody
}

// provenance tells where figures come from, and which versions of what they are
// of.
func (s *section) provenance(machine string, o harness.Options) string {
	with := harness.Versions(append(rivals.Modules(), rivals.MiddlewareModule, "google.golang.org/grpc")...)
	switch s.name {
	case overredis.Section:
		with = overredis.Version() + ", " + harness.Versions(rivals.RedisModules()...)
	case overredis.BreakerSection, faults.Section:
		with = overredis.Version() + ", " + harness.Versions("github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2")
	}
	return fmt.Sprintf("`go run . -rounds %d` on %s\nWith %s.", o.Rounds, machine, with)
}

func names() []string {
	var all []string
	for _, e := range experiments() {
		all = append(all, e.ID())
	}
	return all
}
