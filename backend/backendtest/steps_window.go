package backendtest

import "github.com/protolimit/ratelimit"

var (
	fixed   = []ratelimit.Algorithm{ratelimit.FixedWindow}
	sliding = []ratelimit.Algorithm{ratelimit.SlidingWindow}
	logs    = []ratelimit.Algorithm{ratelimit.SlidingLog}
)

var windowTables = []table{
	{"grants the count in each window", fixed, "3/10s", 0, []step{
		{0, 2, passes(1, 10*sec)},
		{4 * sec, 2, waits(1, 6*sec, 6*sec)},
		{4 * sec, 1, passes(0, 6*sec)},
		{10*sec - µs, 1, waits(0, 1*µs, 1*µs)},
		{10 * sec, 0, passes(3, 0)},
		{10 * sec, 3, passes(0, 10*sec)},
		{10 * sec, 1, waits(0, 10*sec, 10*sec)},
		{35 * sec, 0, passes(3, 0)},
		{35 * sec, 1, passes(2, 5*sec)},
		{35 * sec, 4, never(2, 5*sec)},
	}},
	{"grants twice the count around an edge", fixed, "5/s", 0, []step{
		{1*sec - µs, 5, passes(0, 1*µs)},
		{1 * sec, 5, passes(0, 1*sec)},
		{1 * sec, 1, waits(0, 1*sec, 1*sec)},
	}},
	{"has days that start at midnight, UTC", fixed, "1/d", 0, []step{
		{14*hour + 30*mins, 1, passes(0, 9*hour+30*mins)},
		{day - µs, 1, waits(0, 1*µs, 1*µs)},
		{day, 1, passes(0, day)},
	}},
	{"has weeks that start on Thursday", fixed, "1/w", 0, []step{
		{-µs, 1, passes(0, 1*µs)},
		{0, 1, passes(0, week)},
		{3 * day, 1, waits(0, 4*day, 4*day)},
		{7*day - µs, 1, waits(0, 1*µs, 1*µs)},
		{7 * day, 1, passes(0, week)},
	}},
	{"has windows at multiples of their length since 1970", fixed, "1/5h", 0, []step{
		// The epoch is 490896 hours after the first of 1970, one more than a multiple of 5.
		{0, 1, passes(0, 4*hour)},
		{4*hour - µs, 1, waits(0, 1*µs, 1*µs)},
		{4 * hour, 1, passes(0, 5*hour)},
		{9*hour - µs, 1, waits(0, 1*µs, 1*µs)},
	}},
	{"has windows of a millisecond", fixed, "2/ms", 0, []step{
		{ms / 4, 2, passes(0, 750*µs)},
		{ms - µs, 1, waits(0, 1*µs, 1*µs)},
		{ms, 2, passes(0, 1*ms)},
	}},
	{"counts a window that starts later than now as the one that holds now", fixed, "3/10s", 0, []step{
		{25 * sec, 2, passes(1, 5*sec)},
		{14 * sec, 2, waits(1, 6*sec, 6*sec)},
		{14 * sec, 1, passes(0, 6*sec)},
		{20 * sec, 3, passes(0, 10*sec)},
	}},
}

var slidingTables = []table{
	{"counts the share of the window before that is covered", sliding, "10/10s", 0, []step{
		{0, 10, passes(0, 20*sec)},
		{5 * sec, 1, waits(0, 6*sec, 15*sec)},
		{10 * sec, 1, waits(0, 1*sec, 10*sec)},
		{11*sec - µs, 1, waits(0, 1*µs, 9*sec+µs)},
		{11 * sec, 1, passes(0, 19*sec)},
		{15 * sec, 0, passes(4, 15*sec)},
		{15 * sec, 4, passes(0, 15*sec)},
		{15 * sec, 1, waits(0, 1*sec, 15*sec)},
		{15 * sec, 5, waits(0, 5*sec, 15*sec)},
		{15 * sec, 6, waits(0, 7*sec, 15*sec)},
		{15 * sec, 10, waits(0, 15*sec, 15*sec)},
		{15 * sec, 11, never(0, 15*sec)},
		{25 * sec, 0, passes(7, 5*sec)},
		{30 * sec, 0, passes(10, 0)},
	}},
	{"rounds what the window before still counts up", sliding, "3/3s", 0, []step{
		{0, 1, passes(2, 6*sec)},
		{3 * sec, 0, passes(2, 3*sec)},
		{6*sec - µs, 3, waits(2, 1*µs, 1*µs)},
		{6*sec - µs, 2, passes(0, 3*sec+µs)},
		{6 * sec, 1, passes(0, 6*sec)},
		{6 * sec, 1, waits(0, 1500*ms, 6*sec)},
	}},
	{"has forgotten all after two windows", sliding, "4/s", 0, []step{
		{0, 4, passes(0, 2*sec)},
		{2*sec - µs, 4, waits(3, 1*µs, 1*µs)},
		{2 * sec, 4, passes(0, 2*sec)},
		{9 * sec, 4, passes(0, 2*sec)},
	}},
	{"has weeks that start on Thursday", sliding, "7/w", 0, []step{
		{-µs, 7, passes(0, week+µs)},
		{0, 1, waits(0, day, week)},
		{day, 1, passes(0, 13*day)},
	}},
	{"counts a window that starts later than now as the one that holds now", sliding, "10/10s", 0, []step{
		{20 * sec, 4, passes(6, 20*sec)},
		{9 * sec, 0, passes(6, 11*sec)},
		{9 * sec, 2, passes(4, 11*sec)},
		{10 * sec, 0, passes(4, 10*sec)},
		{20 * sec, 0, passes(10, 0)},
	}},
}

var logTables = []table{
	{"grants the count in any window", logs, "3/10s", 0, []step{
		{0, 1, passes(2, 10*sec)},
		{4 * sec, 2, passes(0, 10*sec)},
		{4 * sec, 1, waits(0, 6*sec, 10*sec)},
		{4 * sec, 2, waits(0, 10*sec, 10*sec)},
		{4 * sec, 3, waits(0, 10*sec, 10*sec)},
		{4 * sec, 4, never(0, 10*sec)},
		{10*sec - µs, 1, waits(0, 1*µs, 4*sec+µs)},
		{10 * sec, 1, passes(0, 10*sec)},
		{14 * sec, 0, passes(2, 6*sec)},
		{14 * sec, 2, passes(0, 10*sec)},
		{24 * sec, 0, passes(3, 0)},
	}},
	{"takes ten thousand grants", logs, "10000/s", 0, []step{
		{0, 9999, passes(1, 1*sec)},
		{500 * ms, 1, passes(0, 1*sec)},
		{999 * ms, 9999, waits(0, 1*ms, 501*ms)},
		{999 * ms, 10000, waits(0, 501*ms, 501*ms)},
		{1 * sec, 9999, passes(0, 1*sec)},
	}},
	{"counts an entry later than now as now", logs, "3/10s", 0, []step{
		{10 * sec, 2, passes(1, 10*sec)},
		{5 * sec, 2, waits(1, 10*sec, 10*sec)},
		{12 * sec, 2, waits(1, 8*sec, 8*sec)},
		{5 * sec, 1, passes(0, 10*sec)},
		{15*sec - µs, 1, waits(0, 1*µs, 1*µs)},
		{15 * sec, 3, passes(0, 10*sec)},
	}},
}
