package demo

import udiff "github.com/aymanbagabas/go-udiff"

// diffTexts returns the unified diff of two texts.
func diffTexts(in arguments) (any, *runError) {
	before, after := in.text("old"), in.text("new")
	diff, err := udiff.ToUnified("old", "new", before, udiff.Lines(before, after), in.number("context"))
	if err != nil {
		return nil, &runError{Code: "DIFF_ERROR", Message: err.Error()}
	}
	return struct {
		Diff    string `json:"diff"`
		Changed bool   `json:"changed"`
	}{diff, before != after}, nil
}
