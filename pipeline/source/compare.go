package source

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/made"
)

// FileChange is one file that differs between a commit and its first parent.
type FileChange struct {
	Path    string // relative to the root; the new name of a renamed file
	OldPath string // only for renamed files
	// Kind is "added", "deleted", "modified", "renamed" (same content under
	// another name) or "mode" (same content, other kind of file).
	Kind string
}

// ChangedFiles compares a commit with its first parent, a root with the empty
// tree, sorted by path. Only unchanged files count as renamed.
func (r *Repo) ChangedFiles(ctx context.Context, id string) ([]FileChange, error) {
	c, err := r.Commit(id)
	if err != nil {
		return nil, err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	return r.Changes(ctx, parent, id)
}

// Changes lists the files that differ between any two commits, sorted by path;
// from may be "" for the empty tree. Only unchanged files count as renamed.
func (r *Repo) Changes(ctx context.Context, from, to string) ([]FileChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.compare(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("changes from %s to %s: %w", short(from), short(to), err)
	}
	return fileChanges(c.Changes), nil
}

// fileChanges names the changes, and joins files that only moved.
func fileChanges(changes []TreeChange) []FileChange {
	var out []FileChange
	gone := map[string][]string{} // blob id and mode to deleted paths
	for _, ch := range changes {
		if ch.New == nil {
			key := ch.Old.ID + fmt.Sprint(ch.Old.Mode)
			gone[key] = append(gone[key], ch.Path)
		}
	}
	moved := map[string]bool{}
	for _, ch := range changes {
		switch {
		case ch.New == nil:
		case ch.Old != nil && ch.Old.ID == ch.New.ID:
			out = append(out, FileChange{Path: ch.Path, Kind: "mode"})
		case ch.Old != nil:
			out = append(out, FileChange{Path: ch.Path, Kind: "modified"})
		default:
			fc := FileChange{Path: ch.Path, Kind: "added"}
			key := ch.New.ID + fmt.Sprint(ch.New.Mode)
			if from := gone[key]; len(from) > 0 {
				fc.Kind, fc.OldPath = "renamed", from[0]
				gone[key], moved[from[0]] = from[1:], true
			}
			out = append(out, fc)
		}
	}
	for _, ch := range changes {
		if ch.New == nil && !moved[ch.Path] {
			out = append(out, FileChange{Path: ch.Path, Kind: "deleted"})
		}
	}
	slices.SortFunc(out, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Comparison is two commits side by side, file by file. It stays valid as long
// as its Repo is open, and is safe for concurrent use.
type Comparison struct {
	From, To string // commit ids; From is "" for the empty tree
	Changes  []TreeChange

	repo     *Repo
	fromTree string
}

// TreeChange is one path at which two trees differ; nil means absent. It is
// about files, links and submodule pins, never about folders.
type TreeChange struct {
	Path     string // relative to the root
	Old, New *Entry
}

// Compare lists what differs between two commits, given by their full ids;
// from may be "" for the empty tree. A partial clone fetches what it lacks of
// both.
func (r *Repo) Compare(ctx context.Context, from, to string) (*Comparison, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pf, ok := r.read.objs.(prefetcher); ok {
		for _, commit := range []string{from, to} {
			if commit == "" {
				continue
			}
			if err := pf.prefetch(ctx, commit); err != nil {
				return nil, err
			}
		}
	}
	return r.compare(ctx, from, to)
}

// CompareTrees is Compare of the names and ids alone: a partial clone fetches no contents.
func CompareTrees(ctx context.Context, r *Repo, from, to string) (*Comparison, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.compare(ctx, from, to)
}

// compare is Compare where r.mu is held and nothing is fetched.
func (r *Repo) compare(ctx context.Context, from, to string) (*Comparison, error) {
	both := &Comparison{From: from, To: to, repo: r}
	if from != "" {
		c, err := r.read.commit(from)
		if err != nil {
			return nil, err
		}
		both.fromTree = c.Tree
	}
	c, err := r.read.commit(to)
	if err != nil {
		return nil, err
	}
	w := newWalk(ctx, r.layout, size{})
	err = w.diff(r.read.objs, "", both.fromTree, c.Tree, func(ch TreeChange) error {
		both.Changes = append(both.Changes, ch)
		return nil
	})
	return both, err
}

// Blob returns the content of a file or link; ok is false where it is larger
// than limit bytes or not a blob.
func (c *Comparison) Blob(id string, limit int64) (data []byte, ok bool, err error) {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	kind, size, r, err := c.repo.read.objs.open(id)
	if err != nil {
		return nil, false, err
	}
	r.Close()
	if kind != "blob" || size > limit {
		return nil, false, nil
	}
	data, err = readObject(c.repo.read.objs, id, "blob")
	return data, err == nil, err
}

// size is how much a commit holds.
type size struct {
	entries int // files and folders
	paths   int // bytes of their paths
	rules   int // of its .gitattributes files, with the files
	bytes   int64
}

// A commit may hold spread times what is checked out or what another one held, and this much in any case.
const (
	spread       = 4
	smallEntries = 100_000
	smallPaths   = 8 << 20
	smallRules   = 2500
	smallBytes   = 1 << 30
)

// walk bounds what is read of trees: thirty objects can name more files than any disk holds, and longer paths than
// memory does.
type walk struct {
	ctx       context.Context
	most, met size
}

func newWalk(ctx context.Context, l layout, held size) *walk {
	small := size{smallEntries, smallPaths, smallRules, smallBytes}
	known := atLeast(atLeast(small, held), checkedOut(l))
	return &walk{ctx: ctx, most: size{spread * known.entries, spread * known.paths, spread * known.rules, spread * known.bytes}}
}

func atLeast(a, b size) size {
	return size{max(a.entries, b.entries), max(a.paths, b.paths), max(a.rules, b.rules), max(a.bytes, b.bytes)}
}

// enter counts what is about to be read: the names of one folder, in the larger of its states.
func (w *walk) enter(dir string, states ...[]Entry) error {
	var here size
	for _, entries := range states {
		paths := 0
		for _, e := range entries {
			paths += len(dir) + 1 + len(e.name)
		}
		here = atLeast(here, size{entries: len(entries), paths: paths})
	}
	w.met.entries += here.entries
	w.met.paths += here.paths
	return cmp.Or(w.met.within(w.most), w.ctx.Err())
}

const moreThanOthers = "a commit may hold four times what is checked out, or what a commit before it held"

// within is an error where a commit holds more than it may.
func (s size) within(most size) error {
	reason := ""
	switch {
	case s.entries > most.entries:
		reason = fmt.Sprintf("more than %d files and folders to read", most.entries)
	case s.paths > most.paths:
		reason = fmt.Sprintf("paths of more than %d bytes in all", most.paths)
	case s.rules > most.rules:
		reason = fmt.Sprintf("more than %d rules in .gitattributes", most.rules)
	default:
		return nil
	}
	return &UnsupportedError{Attribute: "size", Reason: reason, Hint: moreThanOthers}
}

// checkedOut is what the user has checked out, as far as the index tells by its head and its length.
func checkedOut(l layout) size {
	if l.workDir == "" {
		return size{entries: 10 * smallEntries, paths: 10 * smallPaths}
	}
	var head struct{ Magic, Version, Entries uint32 }
	f, err := os.Open(filepath.Join(l.gitDir, "index"))
	if err != nil {
		return size{}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || binary.Read(f, binary.BigEndian, &head) != nil {
		return size{}
	}
	return size{entries: int(head.Entries), paths: int(fi.Size())}
}

// diff reports every leaf at which the trees before and after differ,
// reading only subtrees with different ids; "" is the empty tree. go-git's
// merkletrie would need an adapter as long as this function, and would accept
// trees that Git must not check out.
func (w *walk) diff(o objects, dir, before, after string, emit func(TreeChange) error) error {
	if before == after {
		return nil
	}
	old, err := sortedTree(o, before)
	if err != nil {
		return err
	}
	cur, err := sortedTree(o, after)
	if err != nil {
		return err
	}
	if err := w.enter(dir, old, cur); err != nil {
		return err
	}
	for len(old) > 0 || len(cur) > 0 {
		var a, b *Entry
		if len(cur) == 0 || len(old) > 0 && old[0].name <= cur[0].name {
			a = &old[0]
		}
		if len(old) == 0 || len(cur) > 0 && cur[0].name <= old[0].name {
			b = &cur[0]
		}
		if a != nil {
			old = old[1:]
		}
		if b != nil {
			cur = cur[1:]
		}
		if err := w.diffEntry(o, dir, a, b, emit); err != nil {
			return err
		}
	}
	return nil
}

// diffEntry compares two entries of one name.
func (w *walk) diffEntry(o objects, dir string, a, b *Entry, emit func(TreeChange) error) error {
	if a != nil && b != nil && a.Mode == b.Mode && a.ID == b.ID {
		return nil
	}
	ch := TreeChange{}
	var oldTree, newTree string
	if a != nil {
		ch.Path = path.Join(dir, a.name)
		if a.isTree() {
			oldTree = a.ID
		} else {
			ch.Old = a
		}
	}
	if b != nil {
		if err := checkName(dir, b.name); err != nil {
			return err
		}
		ch.Path = path.Join(dir, b.name)
		if b.isTree() {
			newTree = b.ID
		} else {
			ch.New = b
		}
	}
	if ch.Old != nil || ch.New != nil {
		if err := emit(ch); err != nil {
			return err
		}
	}
	return w.diff(o, ch.Path, oldTree, newTree, emit)
}

// sortedTree returns the entries in plain byte order of their names (Git's
// own order sorts folders as if they ended in a slash).
func sortedTree(o objects, id string) ([]Entry, error) {
	if id == "" {
		return nil, nil
	}
	entries, err := readTree(o, id)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return nil, &UnsupportedError{Path: entries[i].name, Attribute: "path", Reason: "tree " + short(id) + " has this name twice"}
		}
	}
	return entries, nil
}

// checkName refuses a tree entry that cannot become a file: what could leave
// the folder, pass for a repository, or is longer than Linux takes.
func checkName(dir, name string) error {
	const longestName, longestPath = 255, 4095
	reason := ""
	switch {
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/\x00"), strings.EqualFold(name, ".git"):
		reason = "unsafe name in the tree"
	case len(name) > longestName:
		reason = fmt.Sprintf("a name of %d bytes; the file system takes %d", len(name), longestName)
	case len(dir)+1+len(name) > longestPath:
		reason = fmt.Sprintf("a path of %d bytes; the system takes %d", len(dir)+1+len(name), longestPath)
	default:
		return nil
	}
	full := path.Join(dir, name)
	return &UnsupportedError{Path: full[:min(len(full), longestName)], Attribute: "path", Reason: reason}
}

// Edit is what becomes of one path of a tree.
type Edit struct {
	Path string
	New  *Entry // nil: what stood there goes
	// Content, if not nil, gives what New holds instead of the blob of its ID. It
	// is called whenever the file is read, so that the content need not be kept.
	Content func() string
}

// Compose returns a commit that has the files of From after edits, and From as
// its parent. It exists in memory alone, but its id serves like that of any
// commit in the methods of the Repo, and in Switch and Check of an [Export] of
// it, as long as the Repo is open. Equal files give equal ids.
func (c *Comparison) Compose(edits []Edit) (string, error) {
	c.repo.mu.Lock()
	defer c.repo.mu.Unlock()
	m := &composer{objs: c.repo.read.objs, made: c.repo.made, idLen: len(c.To)}
	tree, err := m.compose(c.fromTree, edits)
	if err != nil {
		return "", fmt.Errorf("compose a commit between %s and %s: %w", short(c.From), short(c.To), err)
	}
	return m.commit(tree, c.From, c.To), nil
}

// treeEdit says what is to become of one name in a tree.
type treeEdit struct {
	gone bool   // the old leaf goes
	leaf *Entry // the new one, or nil
	kids map[string]*treeEdit
}

// at returns the edit of a path below t.
func (t *treeEdit) at(file string) *treeEdit {
	for name := range strings.SplitSeq(file, "/") {
		kid := t.kids[name]
		if kid == nil {
			kid = &treeEdit{}
			if t.kids == nil {
				t.kids = map[string]*treeEdit{}
			}
			t.kids[name] = kid
		}
		t = kid
	}
	return t
}

// composer makes objects that are kept in memory.
type composer struct {
	objs  objects
	made  *made.Objects
	idLen int      // of ids in hex digits
	added []string // ids of what was made
}

// compose returns the id of a tree after edits.
func (c *composer) compose(tree string, edits []Edit) (string, error) {
	root := &treeEdit{}
	for _, e := range edits {
		at := root.at(e.Path)
		if e.New == nil {
			at.gone = true
			continue
		}
		leaf := *e.New
		if e.Content != nil {
			leaf.ID = c.addLazy("blob", e.Content(), e.Content)
		}
		at.leaf = &leaf
	}
	id, err := c.tree(tree, "", root)
	if err == nil && id == "" {
		id = c.add("tree", "")
	}
	return id, err
}

// tree returns the id of a tree after edits, "" for one that is empty.
func (c *composer) tree(id, dir string, t *treeEdit) (string, error) {
	entries, err := sortedTree(c.objs, id)
	if err != nil {
		return "", err
	}
	byName := map[string]Entry{}
	for _, e := range entries {
		byName[e.name] = e
	}
	for name, kid := range t.kids {
		e, err := c.entry(byName[name], join(dir, name), kid)
		if err != nil {
			return "", err
		}
		delete(byName, name)
		if e.ID != "" {
			e.name = name
			byName[name] = e
		}
	}
	if len(byName) == 0 {
		return "", nil
	}
	return c.add("tree", encodeTree(byName)), nil
}

func join(dir, name string) string { return strings.TrimPrefix(dir+"/"+name, "/") }

// entry returns what stands under one name after edits; no id means nothing.
func (c *composer) entry(was Entry, file string, t *treeEdit) (Entry, error) {
	below, sub := "", ""
	if was.isTree() {
		below = was.ID
	}
	if len(t.kids) > 0 {
		var err error
		if sub, err = c.tree(below, file, t); err != nil {
			return Entry{}, err
		}
	} else {
		sub = below
	}
	stays := was.ID != "" && !was.isTree() && !t.gone && t.leaf == nil
	switch {
	case sub != "" && (stays || t.leaf != nil):
		return Entry{}, fmt.Errorf("%s would be both a file and a folder", file)
	case sub != "":
		return Entry{Mode: modeTree, ID: sub}, nil
	case t.leaf != nil:
		return *t.leaf, nil
	case stays:
		return was, nil
	}
	return Entry{}, nil
}

// encodeTree writes a tree object, folders sorted as if they ended in a slash.
func encodeTree(byName map[string]Entry) string {
	entries := make([]Entry, 0, len(byName))
	for _, e := range byName {
		entries = append(entries, e)
	}
	key := func(e Entry) string {
		if e.isTree() {
			return e.name + "/"
		}
		return e.name
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(key(a), key(b)) })
	var b []byte
	for _, e := range entries {
		b = fmt.Appendf(b, "%o %s\x00", e.Mode, e.name)
		b, _ = hex.AppendDecode(b, []byte(e.ID)) // parsed from bytes before
	}
	return string(b)
}

// commit makes a commit object for a composed tree.
func (c *composer) commit(tree, from, to string) string {
	text := "tree " + tree + "\n"
	if from != "" {
		text += "parent " + from + "\n"
	}
	text += "author kbisect <> 0 +0000\ncommitter kbisect <> 0 +0000\n\nsome hunks of " + to + "\n"
	id := c.add("commit", text)
	c.made.Commit(id, []string{from, to}, c.added)
	return id
}

func (c *composer) add(kind, data string) string {
	return c.addLazy(kind, data, func() string { return data })
}

// addLazy keeps an object by a function that makes its content.
func (c *composer) addLazy(kind, data string, again func() string) string {
	id := made.ID(kind, data, c.idLen)
	c.made.Add(id, made.Object{Kind: kind, Size: int64(len(data)), Data: again})
	c.added = append(c.added, id)
	return id
}

// Made is a commit of [Comparison.Compose] as data, for another process.
type Made = made.Commit

// MadeOf is such a commit; ok is false for one that the repository holds.
func MadeOf(r *Repo, commit string) (Made, bool) { return r.made.Pack(commit) }

// Adopt makes a commit of another process known to a repository that holds what it was made from.
func Adopt(r *Repo, m Made) error { return r.made.Unpack(m) }

// overlay is a back end that knows the made objects, too.
type overlay struct {
	objects
	made *made.Objects
}

func (o overlay) open(id string) (string, int64, io.ReadCloser, error) {
	if m, ok := o.made.Get(id); ok {
		return m.Kind, m.Size, io.NopCloser(strings.NewReader(m.Data())), nil
	}
	return o.objects.open(id)
}

// another implements objects.
func (o overlay) another() (objects, error) {
	objs, err := o.objects.another()
	return overlay{objs, o.made}, err
}

// base is the commit that a made one was made from, and any other commit itself.
func (o overlay) base(commit string) string {
	for _, c := range o.made.Sides(commit) {
		if c != "" {
			return c
		}
	}
	return commit
}

// prefetch brings what a made commit was made from.
func (o overlay) prefetch(ctx context.Context, commit string) error {
	pf, ok := o.objects.(prefetcher)
	if !ok {
		return nil
	}
	commits := o.made.Sides(commit)
	if commits == nil {
		commits = []string{commit}
	}
	for _, c := range commits {
		if c == "" {
			continue
		}
		if err := pf.prefetch(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
