package goredis

import "log/slog"

// A warning is something found about a server, and what to do about it.
type warning struct {
	text, remedy string
	key, value   string // what was found
	bug          bool   // no decision is made as long as it lasts
}

func (w warning) level() slog.Level {
	if w.bug {
		return slog.LevelError
	}
	return slog.LevelWarn
}

func (w warning) attrs(server string) []slog.Attr {
	return []slog.Attr{slog.String(w.key, w.value), slog.String("remedy", w.remedy), slog.String("server", server)}
}
