package demo

import (
	"bytes"
	"errors"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// markdown renders without html.WithUnsafe, which omits raw HTML and links such as javascript:.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList))

var errTooLarge = errors.New("output too large")

// A limitedBuffer is a buffer of at most maxOutput bytes: a long reference that is used many times
// expands to much more HTML. The buffer is not embedded, so that there are no other methods to write.
type limitedBuffer struct{ html bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.html.Len()+len(p) > maxOutput {
		return 0, errTooLarge
	}
	return b.html.Write(p)
}

// renderMarkdown turns Markdown into HTML.
func renderMarkdown(in arguments) (any, *runError) {
	var out limitedBuffer
	err := markdown.Convert([]byte(in.text("markdown")), &out)
	if errors.Is(err, errTooLarge) {
		return nil, outputTooLarge()
	}
	if err != nil {
		return nil, &runError{Code: "MARKDOWN_ERROR", Message: err.Error()}
	}
	return struct {
		HTML string `json:"html"`
	}{out.html.String()}, nil
}
