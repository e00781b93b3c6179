package levels

import (
	"math"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
)

// measured are launches of Liger-Kernel's layer norm, backward, on an H100 whose host held up about half of them: the
// place of the commit, -1 for the good end, and the median in µs. The change, from place 2 on, takes 129.5 µs to 308.3.
var measured = []struct {
	at int
	us float64
}{
	{-1, 167.3}, {4, 308.4}, {-1, 168.9}, {4, 344.4}, {4, 469.1}, {-1, 220.8}, {4, 307.5}, {-1, 257.5}, {-1, 130.1}, {4, 308.3}, {-1, 129.2}, {4, 398.5},
	{3, 308.3}, {0, 156.6}, {1, 164.1}, {3, 354.6}, {2, 384.0}, {1, 129.9}, {2, 308.5}, {1, 213.1}, {2, 398.3}, {2, 308.4}, {1, 163.5}, {2, 449.5}, {1, 129.5},
}

// Where many launches are held up, those that are not say what the step is.
func TestHeldUp(t *testing.T) {
	commits := bisect.Linear("good", "a", "b", "c", "d", "e")
	m := New(commits, slices.Repeat([]float64{1}, 5))
	for i, x := range measured {
		m.Add(belief.Launch{Index: x.at, At: float64(2 * i), Y: math.Log(x.us)})
	}
	step, sd := m.Step()
	if want := math.Log(308.3 / 129.5); math.Abs(step-want) > 0.02 || sd > 0.02 {
		t.Errorf("step %.3f ± %.3f, want %.3f", step, sd, want)
	}
	if n := m.Noise(); n.SD > 0.01 || n.Wide < 0.05 || n.Described(m.Launches()) == "" {
		t.Errorf("noise %+v", n)
	}
	if n := withoutStep(m); n.Mode <= m.Noise().Mode { // what the step explains is noise there
		t.Errorf("noise without a step %+v, with it %+v", n, m.Noise())
	}
	if w := m.Weights(); w[2] < 0.999 {
		t.Errorf("culprit %v", w)
	}
}

// fought are pairs of launches of a proof, in µs, parent and culprit, of Liger-Kernel's cross entropy on such a host. The
// parent takes 369 µs where nothing holds it up, the culprit 465.
var fought = [][2]float64{
	{461.6, 484.6}, {505.6, 609.0}, {510.8, 621.1}, {449.3, 592.5}, {384.7, 459.5}, {516.3, 528.4}, {381.9, 466.7},
	{493.1, 469.3}, {499.7, 697.8}, {437.2, 664.9}, {506.9, 549.6}, {374.8, 553.2}, {394.0, 629.9},
}

// A step is borne out by the launches that were not held up, of whichever pair. Launches of the parent alone bear out none.
func TestProofWhereLaunchesAreHeldUp(t *testing.T) {
	noise := Noise{SD: 0.02, Mode: 0.27, Share: 0.65, Wide: 0.12}
	for _, x := range []struct {
		name    string
		culprit func(k int) float64
		most    int // pairs
		decided int
	}{
		{"a step", func(k int) float64 { return fought[k][1] }, 9, 1},
		{"none", func(k int) float64 { return fought[(k+4)%len(fought)][0] }, len(fought), -1},
	} {
		test := StepTest{Step: math.Log(465.0 / 369)}
		for k := range fought {
			if test.Decided(noise, 0.0025) != 0 {
				break
			}
			at := float64(3 * k)
			test.Add(belief.Launch{At: at, Y: math.Log(fought[k][0])}, belief.Launch{At: at + 1.5, Y: math.Log(x.culprit(k))})
		}
		if got := test.Decided(noise, 0.0025); got != x.decided || test.Pairs() > x.most {
			t.Errorf("%s: %d after %d pairs, odds e^%.1f; want %d after at most %d", x.name, got, test.Pairs(), test.LogOdds(noise), x.decided, x.most)
		}
	}
}

// After a search a proof knows where good and bad launches lie. Where one of two commits is held up in every launch it is not
// taken for bad because of that.
func TestClaimAfterASearch(t *testing.T) {
	m := New(bisect.Linear("good", "a", "b", "c", "d", "e"), slices.Repeat([]float64{1}, 5))
	for i, x := range measured {
		m.Add(belief.Launch{Index: x.at, At: float64(2 * i), Y: math.Log(x.us)})
	}
	good, heldUp := []float64{130.0, 129.4, 164.1, 129.9, 130.2, 129.5, 163.5}, []float64{220.8, 213.1, 257.5, 199.1, 231.4, 244.0, 210.7}
	bad, worse := []float64{308.4, 308.5, 344.4, 308.3, 308.6, 308.5, 354.6}, []float64{449.5, 398.3, 469.1, 384.0, 421.2, 401.7, 437.0}
	for _, x := range []struct {
		name            string
		parent, culprit []float64
		most, decided   int
	}{
		{"the culprit", heldUp, bad, 4, 1},
		{"both good, all launches of one held up", good, heldUp, 7, 0},
		{"both bad, all launches of one held up", bad, worse, 2, -1},
	} {
		test := Claim(m, 2)
		for k := range good {
			if test.Decided(m.Noise(), 0.0025) != 0 {
				break
			}
			at := float64(60 + 4*k)
			test.Add(belief.Launch{At: at, Y: math.Log(x.parent[k])}, belief.Launch{At: at + 2, Y: math.Log(x.culprit[k])})
		}
		if got := test.Decided(m.Noise(), 0.0025); got != x.decided || test.Pairs() > x.most {
			t.Errorf("%s: %d after %d pairs, odds e^%.1f; want %d after at most %d", x.name, got, test.Pairs(), test.LogOdds(m.Noise()), x.decided, x.most)
		}
	}
}
