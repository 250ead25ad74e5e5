package polling

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// A snapshot begins with two bytes, the kind and the version of its format, and ends
// with a checksum.
const (
	snapshotFormat = "b1"
	checksumSize   = 4
)

var (
	errDamaged = errors.New("polling: stored data is damaged")
	errVersion = errors.New("polling: stored data is of another version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save returns a snapshot of all execution times.
func (s *Store) Save() []byte {
	s.mu.Lock()
	known := make([]*entry, 0, len(s.skills))
	for _, entries := range s.providers {
		for e := entries.Back(); e != nil; e = e.Prev() { // the most recently used last
			known = append(known, e.Value.(*entry))
		}
	}
	s.mu.Unlock()

	data := []byte(snapshotFormat)
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
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// Load adds the execution times of a snapshot, except for skills that have execution times
// already. After an error, the store is unchanged.
func (s *Store) Load(data []byte) error {
	if len(data) < len(snapshotFormat)+checksumSize {
		return errDamaged
	}
	content, sum := data[:len(data)-checksumSize], data[len(data)-checksumSize:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(content, castagnoli) {
		return errDamaged
	}
	content, ok := bytes.CutPrefix(content, []byte(snapshotFormat))
	if !ok {
		return errVersion
	}
	type stored struct {
		key   Key
		times []float32
	}
	var all []stored
	for len(content) > 0 {
		var skill stored
		for _, field := range []*string{&skill.key.Provider, &skill.key.Skill, &skill.key.Version} {
			if *field, content, ok = cutString(content); !ok {
				return errDamaged
			}
		}
		if skill.times, content, ok = cutTimes(content); !ok {
			return errDamaged
		}
		all = append(all, skill)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, skill := range all {
		if l := s.learner(skill.key); l.history.restore(skill.times) {
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

// cutLength reads a length from the beginning of data. It fails if the length exceeds most.
func cutLength(data []byte, most int32) (n int, rest []byte, ok bool) {
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(max(most, 0)) {
		return 0, nil, false
	}
	return int(length), data[size:], true //nolint:gosec // at most an int32
}
