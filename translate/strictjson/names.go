package strictjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// names are the names of the objects that have begun.
type names struct {
	list  []name
	first [maxLevel + 1]int32 // index of an object's first name, by its level
}

// name is a place in the text.
type name struct {
	key        uint64 // the first bytes
	start, end int32
}

const (
	// fewNames is the number of names of one object up to which each is compared with all before. More are sorted.
	fewNames = 16
	// maxNames bounds the memory for the objects that have begun. Texts with more names are left to jsontext.
	maxNames = 4096
)

// begin begins an object at a level.
func (n *names) begin(level int) { n.first[level] = int32(len(n.list)) } //nolint:gosec // at most maxNames

// add adds the name from start to end to the object at a level. It reports whether there is room, and no equal one among the first few.
func (n *names) add(t []byte, level, start, end int) bool {
	added := name{keyOf(t, start, end), int32(start), int32(end)} //nolint:gosec // the text is at most MaxInt32 bytes long
	if others := n.list[n.first[level]:]; len(others) < fewNames {
		for i := range others {
			if others[i].key == added.key && compare(t, &others[i], &added) == 0 {
				return false
			}
		}
	}
	if len(n.list) == maxNames {
		return false
	}
	n.list = append(n.list, added)
	return true
}

// end ends the object at a level. It reports whether all its names are different.
func (n *names) end(t []byte, level int) bool {
	first := n.first[level]
	own := n.list[first:]
	n.list = n.list[:first]
	if len(own) <= fewNames {
		return true
	}
	slices.SortFunc(own, func(a, b name) int { return compare(t, &a, &b) })
	for i := 1; i < len(own); i++ {
		if compare(t, &own[i-1], &own[i]) == 0 {
			return false
		}
	}
	return true
}

// compare compares the texts of two names.
func compare(t []byte, a, b *name) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	return bytes.Compare(t[a.start:a.end], t[b.start:b.end])
}

// keyOf returns the first eight bytes, or fewer and zeros, as a number in their order.
func keyOf(t []byte, start, end int) uint64 {
	size := min(end-start, 8)
	if start+8 <= len(t) {
		return binary.BigEndian.Uint64(t[start:]) &^ (1<<(8*(8-size)) - 1)
	}
	key := uint64(0)
	for i := range size {
		key |= uint64(t[start+i]) << (56 - 8*i)
	}
	return key
}
