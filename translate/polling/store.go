package polling

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// What is stored is two bytes that say what it is and of which version, the
// content, and a checksum of all that.
const (
	historyKind  = 'h'
	bookKind     = 'b'
	version      = '1'
	checksumSize = 4
)

var (
	errDamaged = errors.New("polling: stored data is damaged")
	errVersion = errors.New("polling: stored data is of another version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func seal(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// unseal returns the content.
func unseal(data []byte, kind byte) ([]byte, error) {
	if len(data) < 2+checksumSize {
		return nil, errDamaged
	}
	content, sum := data[:len(data)-checksumSize], data[len(data)-checksumSize:]
	switch {
	case binary.LittleEndian.Uint32(sum) != crc32.Checksum(content, castagnoli):
		return nil, errDamaged
	case content[0] != kind || content[1] != version:
		return nil, errVersion
	}
	return content[2:], nil
}

// MarshalBinary implements [encoding.BinaryMarshaler].
func (h *History) MarshalBinary() ([]byte, error) {
	return seal(appendTimes([]byte{historyKind, version}, h.snapshot())), nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. After an error, the
// history is what it was before.
func (h *History) UnmarshalBinary(data []byte) error {
	content, err := unseal(data, historyKind)
	if err != nil {
		return err
	}
	times, rest, ok := cutTimes(content)
	if !ok || len(rest) > 0 {
		return errDamaged
	}
	h.restore(times)
	return nil
}

func (h *History) snapshot() []float32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ordered(nil)
}

// restore begins anew with these times.
func (h *History) restore(times []float32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times, h.next = times, 0
	h.forget(len(times))
}

// Save returns what is known, to be stored.
func (b *Book) Save() []byte {
	b.mu.Lock()
	known := make([]*entry, 0, len(b.skills))
	for _, shelf := range b.shelves {
		for e := shelf.Back(); e != nil; e = e.Prev() { // the most recently used last
			known = append(known, e.Value.(*entry))
		}
	}
	b.mu.Unlock()

	data := []byte{bookKind, version}
	for _, e := range known {
		times := e.learner.history.snapshot()
		if len(times) == 0 {
			continue
		}
		for _, s := range []string{e.key.Provider, e.key.Skill, e.key.Version} {
			data = binary.AppendUvarint(data, uint64(len(s)))
			data = append(data, s...)
		}
		data = appendTimes(data, times)
	}
	return seal(data)
}

// Load takes over what was stored, but for skills of which something is known
// already. After an error, the book is what it was before.
func (b *Book) Load(data []byte) error {
	content, err := unseal(data, bookKind)
	if err != nil {
		return err
	}
	type stored struct {
		key   Key
		times []float32
	}
	var all []stored
	for len(content) > 0 {
		var s stored
		var ok bool
		for _, field := range []*string{&s.key.Provider, &s.key.Skill, &s.key.Version} {
			if *field, content, ok = cutString(content); !ok {
				return errDamaged
			}
		}
		if s.times, content, ok = cutTimes(content); !ok {
			return errDamaged
		}
		all = append(all, s)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range all {
		if l := b.learner(s.key); l.history.Len() == 0 {
			l.history.restore(s.times)
			l.stored.Store(true)
		}
	}
	return nil
}

func appendTimes(data []byte, times []float32) []byte {
	data = binary.AppendUvarint(data, uint64(len(times)))
	for _, t := range times {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(t))
	}
	return data
}

func cutTimes(data []byte) (times []float32, rest []byte, ok bool) {
	n, data, ok := cutLength(data, remembered)
	if !ok || len(data) < 4*n {
		return nil, nil, false
	}
	times = make([]float32, n)
	for i := range times {
		t := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if math.IsNaN(float64(t)) || t < 0 || t > float32(longestExecution.Seconds()) {
			return nil, nil, false
		}
		times[i] = t
	}
	return times, data[4*n:], true
}

func cutString(data []byte) (s string, rest []byte, ok bool) {
	n, data, ok := cutLength(data, math.MaxInt32)
	if !ok || len(data) < n {
		return "", nil, false
	}
	return string(data[:n]), data[n:], true
}

// cutLength reads a length that is at most so much.
func cutLength(data []byte, most int32) (n int, rest []byte, ok bool) {
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(max(most, 0)) {
		return 0, nil, false
	}
	return int(length), data[size:], true //nolint:gosec // at most an int32
}
