package ecma

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// reader reads the characters of an expression.
type reader struct {
	source  string
	at      int
	problem string // why the expression is not legal
}

const end rune = -1

// fail notes the first mistake and ends the reading.
func (r *reader) fail(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
	r.at = len(r.source)
}

func (r *reader) peek() rune {
	if r.at == len(r.source) {
		return end
	}
	c, _ := utf8.DecodeRuneInString(r.source[r.at:])
	return c
}

func (r *reader) next() rune {
	if r.at == len(r.source) {
		return end
	}
	c, size := utf8.DecodeRuneInString(r.source[r.at:])
	r.at += size
	return c
}

func (r *reader) accept(text string) bool {
	if !strings.HasPrefix(r.source[r.at:], text) {
		return false
	}
	r.at += len(text)
	return true
}

// digits reads decimal digits and returns them without leading zeros.
func (r *reader) digits() string {
	start := r.at
	for r.at < len(r.source) && '0' <= r.source[r.at] && r.source[r.at] <= '9' {
		r.at++
	}
	digits := r.source[start:r.at]
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

// octal reads an octal number up to 0377.
func (r *reader) octal() (n rune) {
	for range 3 {
		c := r.peek()
		if c < '0' || c > '7' || n > 0o37 {
			break
		}
		r.at++
		n = 8*n + c - '0'
	}
	return n
}

// hexadecimal reads so many digits.
func (r *reader) hexadecimal(digits int) (rune, bool) {
	if len(r.source)-r.at < digits {
		return 0, false
	}
	n, err := strconv.ParseUint(r.source[r.at:r.at+digits], 16, 16)
	if err != nil {
		return 0, false
	}
	r.at += digits
	return rune(n), true
}

// translation is the expression for package regexp, as far as it was read.
type translation struct {
	out        []byte
	properties int
	obstacle   string
}

// maxText is the longest translation, in bytes. Classes have long ones.
const maxText = 32 << 10

// hinder notes that package regexp can't evaluate the expression.
func (t *translation) hinder(obstacle string) {
	if t.obstacle == "" {
		t.obstacle = obstacle
	}
}

func (t *translation) emit(text string) {
	if len(t.out)+len(text) > maxText {
		t.hinder("its length")
	}
	if t.obstacle == "" {
		t.out = append(t.out, text...)
	}
}
