// Package sets finds which combination of changes shows a complaint. A change is an [Atom]: a flag
// that leaves its base value, a level of an ordered flag, a hunk of a diff. A set of atoms fails when
// it shows the complaint; a minimal guilty set fails and passes with any of its atoms taken out; a
// maximal safe set passes and fails with any further atom.
//
// A failing test usually costs many times what a passing one does (a time limit against a short run),
// so every search here walks up from the safe side and buys few failures:
//
//   - One guilty set: [Search] looks for the shortest prefix of the atoms that fails, keeps its last
//     atom, and goes on below it. Where to cut is an optimal alphabetic tree over a prior and the
//     prices seen so far. Then comes a certificate, by repeated runs: the set fails, and passes without
//     any one of its atoms.
//   - All of them: the cheapest set of atoms that hits every guilty set known is taken out of the whole.
//     What is left passes, and is a maximal safe set, or fails, and holds a new guilty set. When
//     no such seed is left, the two lists are complete, and only then is that said.
//   - What to keep: seeds come in the order of what they give up, so the first that passes is the most
//     valuable safe set.
//   - Claims: each claimed set alone first (mostly passes), the search with the claimed atoms in
//     front, then everything but the claimed set, which is mostly known by then.
//
// What a superset or a subset has shown is not run again: inferred answers are marked. A set that
// cannot be built is unresolved and accuses nobody: read as a pass it keeps the prefix search exact
// wherever atoms stand after what they need, and what only carries a culprit comes out as an atom whose
// removal does not build.
//
// Failing is taken to be monotone: what fails goes on failing with more atoms. The certificate finds
// out where that, or an answer, was wrong; then what it contradicts is dropped and the search begins
// again with repeats, and the finding says what was seen.
//
// A complaint may come in some launches only. A certificate is given once its doubt is small under all
// that the tests so far say of two chances, that what is guilty fails and that anything else does: the
// fewer of its tests a guilty set fails, the more often every other set must pass. As soon as one set
// has answered both ways, the search trusts single tests no longer either. Before that it tests a failure
// again where nothing less turns out to fail: it may have been a stray one.
//
// The package knows no process and no clock. All decisions follow from the answers of the [Oracle], so
// that a search whose answers are replayed takes the same way.
package sets
