package gpu

import "sync"

// Scripted returns a Watch of a device that is not there, for tests and for
// simulation. Each Watch.Read calls read with the number of reads before it,
// one at a time; a Reading without a Time gets the present one. Each
// Watch.Events calls events for all that has happened so far; an event without
// a Time is always among the answer, and one without a Kind is judged by its
// Xid. Either function may be nil.
func Scripted(id Device, read func(n int) Reading, events func() []Event) *Watch {
	w := newWatch(&script{id: id, reading: read})
	w.pull = events
	return w
}

// script is a reader whose device is a function.
type script struct {
	id      Device
	mu      sync.Mutex // makes read one at a time
	n       int
	reading func(n int) Reading
}

func (s *script) identity() Device { return s.id }

func (s *script) read() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n
	s.n++
	if s.reading == nil {
		return Reading{}
	}
	return s.reading(n)
}

func (s *script) follow(func(Event), func(string)) (func(), error) { return func() {}, nil }
