package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const day = 24 * time.Hour

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"10/s":              {10, time.Second},
		"100/15m":           {100, 15 * time.Minute},
		"5/100ms":           {5, 100 * time.Millisecond},
		"1/30d":             {1, 30 * day},
		"0/s":               {0, time.Second},
		"0/366d":            {0, 366 * day},
		"1/w":               {1, 7 * day},
		"1/52w":             {1, 364 * day},
		"1/h":               {1, time.Hour},
		"1000000/ms":        {1e6, time.Millisecond},
		"1000000000/s":      {1e9, time.Second},
		"1000000000000/d":   {1e12, day},
		"1000000000000/17m": {1e12, 17 * time.Minute},
		"7/31622400s":       {7, 366 * day},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseRateErrors(t *testing.T) {
	form := "want " + rateForm
	for text, want := range map[string]string{
		"":                        form,
		"10":                      form,
		"/s":                      form,
		"10/":                     form,
		"10/5":                    form,
		"10/S":                    form,
		"10/sec":                  form,
		"10/us":                   form,
		"10 / s":                  form,
		" 10/s":                   form,
		"10/s ":                   form,
		"+10/s":                   form,
		"-1/s":                    form,
		"1.5/s":                   form,
		"1e3/s":                   form,
		"010/s":                   form,
		"10/01s":                  form,
		"10/0s":                   form,
		"10/-1s":                  form,
		"10/1.5s":                 form,
		"10/s/s":                  form,
		"10//s":                   form,
		"１０/s":                    form,
		"10/1m30s":                form,
		"1000000000001/366d":      "want a COUNT of at most 1000000000000",
		"99999999999999999999/s":  "want a COUNT of at most 1000000000000",
		"1/367d":                  "want a window of 1ms to 366d",
		"1/53w":                   "want a window of 1ms to 366d",
		"1/99999999999999999999d": "want a window of 1ms to 366d",
		"1000000001/s":            "want at most 1000000000 a second",
		"1000001/ms":              "want at most 1000000000 a second",
		"1000000000000/16m":       "want at most 1000000000 a second",
	} {
		got, err := ParseRate(text)
		if err == nil || err.Error() != want {
			t.Errorf("ParseRate(%q) = %v, %v; want error %q", text, got, err, want)
		}
	}
}

func TestRateStringIsParsedBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.Int64Range(1, int64(MaxWindow/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if unit := rapid.SampledFrom(rateUnits[:]).Draw(t, "unit").size; window >= unit {
			window -= window % unit
		}
		most := min(MaxCount, window.Milliseconds()*(MaxPerSecond/1000))
		want := Rate{rapid.Int64Range(0, most).Draw(t, "count"), window}
		got, err := ParseRate(want.String())
		if err != nil || got != want {
			t.Fatalf("ParseRate(%q) = %v, %v; want %v", want.String(), got, err, want)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"10/s", "100/15m", "1/367d", "0/0s", "9223372036854775808/9223372036854775808w", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			return
		}
		if err := r.check(); err != nil {
			t.Fatalf("ParseRate(%q) = %+v, out of range: %v", s, r, err)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("ParseRate(%q) = %v, whose String is parsed as %v, %v", s, r, again, err)
		}
	})
}
