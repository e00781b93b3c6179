package bisect

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// halving asks for the commits of a line by halves and stops where a failure stands behind a pass.
func halving(n int) func(context.Context, Sampler) {
	return func(ctx context.Context, s Sampler) {
		for lo, hi := 0, n; hi-lo > 1; {
			mid := (lo + hi) / 2
			o, err := s.Sample(ctx, numbered(mid))
			switch {
			case err != nil:
				return
			case o.Class == OK:
				lo = mid
			default:
				hi = mid
			}
		}
		_, _ = s.Sample(ctx, Request{Purpose: ConfirmCulprit}) // of one name, whatever was found
	}
}

func numbered(i int) Request {
	return Request{Candidate: Candidate{Commit: fmt.Sprint(i)}, Purpose: Searching}
}

// names lists the commits of requests; that of the confirmation is empty.
func names(list []Request) (out []string) {
	for _, r := range list {
		out = append(out, r.Candidate.Commit)
	}
	return out
}

// What is listed is what the search asks for if the likely comes true, the likeliest first, and nothing
// that is unlikely, or that nobody guesses about.
func TestForesight(t *testing.T) {
	known := map[Request]Outcome{}
	chance := 0.5
	f := Foresight{
		Again: halving(16),
		Known: func(r Request) (Outcome, bool) { o, ok := known[r]; return o, ok },
		Guess: func(r Request) []Guess {
			if r.Purpose == ConfirmCulprit {
				return nil
			}
			return Guesses(r, Outcome{Class: OK}, Outcome{Class: Wrong}, chance)
		},
	}
	see := func(n int, want ...string) {
		t.Helper()
		if got := names(f.Next(t.Context(), n)); !slices.Equal(got, want) {
			t.Errorf("%d of them, known %v: %v, want %v", n, known, got, want)
		}
	}
	see(1, "8")
	see(3, "8", "12", "4")
	see(7, "8", "12", "4", "14", "10", "6", "2")
	see(99, "8", "12", "4", "14", "10", "6", "2", "15", "13", "11", "9", "7", "5", "3", "1") // chances of 1 in 8
	chance = 0.05
	see(99, "8", "12", "14", "15")
	chance = 0.95
	see(3, "8", "4", "2")
	known[numbered(8)], known[numbered(4)] = Outcome{Class: Wrong}, Outcome{Class: OK}
	see(3, "6", "5")
	known[numbered(6)] = Outcome{Class: OK}
	see(3, "7")
	known[numbered(7)] = Outcome{Class: OK}
	see(3) // the confirmation is nobody's guess
	f.Guess = func(r Request) []Guess { return Guesses(r, Outcome{Class: OK}, Outcome{Class: Wrong}, chance) }
	see(3, "")
	known[Request{Purpose: ConfirmCulprit}] = Outcome{Class: Wrong}
	see(3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := f.Next(ctx, 3); len(got) > 0 {
		t.Errorf("after the end: %v", got)
	}
}

// A guess at a time-out is as early as the request lets it be.
func TestGuesses(t *testing.T) {
	pass, fail := Outcome{Class: OK, Wall: 10}, Outcome{Class: Timeout, Wall: 180}
	whole := Guesses(Request{}, pass, fail, 0.3)
	early := Guesses(Request{Hurry: WholeTrial}, pass, fail, 0.3)
	later := Guesses(Request{Hurry: WholeTrial, Past: 60}, pass, fail, 0.3)
	if whole[1].Outcome.Early || whole[1].Outcome.Wall != 180 || whole[1].Chance != 0.3 || whole[0].Chance != 0.7 {
		t.Errorf("%+v", whole)
	}
	if e, l := early[1].Outcome, later[1].Outcome; !e.Early || e.Wall != Patience(10) || !l.Early || l.Wall != Patience(60) {
		t.Errorf("%+v\n%+v", early, later)
	}
}
