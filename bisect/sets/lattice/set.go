// Package lattice is about what can be on together: an [Atom] is one change that can be on or off, a [Set]
// is a set of them, and a [Space] knows which sets are valid, since atoms require and exclude each other.
// It also finds the cheapest set that has an atom of each of some sets ([Cheapest]).
//
// The package must not know tests and answers; package sets searches a space.
package lattice

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxAtoms is the most atoms that a space can have.
const MaxAtoms = 4096

// Set is a set of atoms, by index. Its last word is never zero, so that equal sets are equal words.
// Operations return new sets and leave their operands alone; nil is the empty set.
type Set []uint64

// Of returns the set of the atoms given.
func Of(atoms ...int) Set {
	var s Set
	for _, a := range atoms {
		for len(s) <= a/64 {
			s = append(s, 0)
		}
		s[a/64] |= 1 << (a % 64)
	}
	return s
}

// First returns the set of the atoms 0 to n-1.
func First(n int) Set {
	s := make(Set, (n+63)/64)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[len(s)-1] = 1<<(n%64) - 1
	}
	return s
}

// Has reports whether atom a is in s.
func (s Set) Has(a int) bool { return a/64 < len(s) && s[a/64]>>(a%64)&1 == 1 }

// Or returns the union.
func (s Set) Or(t Set) Set {
	if len(s) < len(t) {
		s, t = t, s
	}
	u := slices.Clone(s)
	for i, w := range t {
		u[i] |= w
	}
	return u
}

// And returns the intersection.
func (s Set) And(t Set) Set {
	u := make(Set, min(len(s), len(t)))
	for i := range u {
		u[i] = s[i] & t[i]
	}
	return u.trim()
}

// Minus returns what is in s and not in t.
func (s Set) Minus(t Set) Set {
	u := slices.Clone(s)
	for i := range min(len(s), len(t)) {
		u[i] &^= t[i]
	}
	return u.trim()
}

// trim drops zero words at the end, so that equal sets are equal words.
func (s Set) trim() Set {
	for len(s) > 0 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	return s
}

// In reports whether every atom of s is in t.
func (s Set) In(t Set) bool {
	if len(s) > len(t) {
		return false
	}
	for i, w := range s {
		if w&^t[i] != 0 {
			return false
		}
	}
	return true
}

// Meets reports whether s and t have an atom in common.
func (s Set) Meets(t Set) bool {
	for i := range min(len(s), len(t)) {
		if s[i]&t[i] != 0 {
			return true
		}
	}
	return false
}

// Equal reports whether s and t have the same atoms.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// Len counts the atoms.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Atoms lists the atoms, lowest first.
func (s Set) Atoms() []int {
	list := make([]int, 0, s.Len())
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			list = append(list, 64*i+bits.TrailingZeros64(w))
		}
	}
	return list
}

// Key is a short text that stands for the set, the same in every run; [ParseKey] reads it.
func (s Set) Key() string {
	if len(s) == 0 {
		return "0"
	}
	var b strings.Builder
	b.WriteString(strconv.FormatUint(s[len(s)-1], 16))
	for i := len(s) - 2; i >= 0; i-- {
		fmt.Fprintf(&b, "%016x", s[i])
	}
	return b.String()
}

// ParseKey reads what [Set.Key] wrote.
func ParseKey(key string) (Set, error) {
	if key == "" || len(key) > MaxAtoms/4 {
		return nil, fmt.Errorf("invalid key of a set: %d digits, expected 1 to %d", len(key), MaxAtoms/4)
	}
	var s Set
	for rest := key; rest != ""; {
		cut := max(0, len(rest)-16)
		if strings.Trim(rest[cut:], "0123456789abcdef") != "" {
			return nil, fmt.Errorf("invalid key of a set: expected a hexadecimal number, got %q", key)
		}
		w, err := strconv.ParseUint(rest[cut:], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("invalid key of a set: %w", err)
		}
		s, rest = append(s, w), rest[:cut]
	}
	return s.trim(), nil
}
