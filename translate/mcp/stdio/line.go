package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// bufferSize is how much is read at a time.
const bufferSize = 64 << 10

// lineReader reads lines of bounded length.
type lineReader struct {
	reader *bufio.Reader
	max    int          // bytes of a line, without its end
	hold   func() error // is called before more than smallAnswer bytes are kept; nil: they always may
}

func newLineReader(r io.Reader, longest int) *lineReader {
	return &lineReader{reader: bufio.NewReaderSize(r, bufferSize), max: longest}
}

// next returns the next line without its end (LF or CR LF), which the last line need not have. If the line is too long, it is read
// to its end, but not kept. The error is io.EOF after the last line.
func (l *lineReader) next() (line []byte, tooLong bool, err error) {
	for {
		piece, err := l.reader.ReadSlice('\n')
		if l.hold != nil && len(line)+len(piece) > smallAnswer {
			if err := l.hold(); err != nil {
				return nil, false, err
			}
		}
		tooLong = tooLong || len(line)+len(piece) > l.max+len("\r\n")
		if tooLong {
			line = nil
		} else {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 && !tooLong || !errors.Is(err, io.EOF)):
			return nil, false, err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if tooLong || len(line) > l.max {
			return nil, true, nil
		}
		return line, false, nil
	}
}
