package demo

import udiff "github.com/aymanbagabas/go-udiff"

// texts are the inputs of diffTexts.
type texts struct {
	Old     string `json:"old"`
	New     string `json:"new"`
	Context uint8  `json:"context"`
}

// diffTexts returns the unified diff of two texts.
func diffTexts(in texts) (any, *failure) {
	diff, err := udiff.ToUnified("old", "new", in.Old, udiff.Lines(in.Old, in.New), int(in.Context))
	if err != nil {
		return nil, &failure{Code: "DIFF_ERROR", Message: err.Error()}
	}
	return struct {
		Diff    string `json:"diff"`
		Changed bool   `json:"changed"`
	}{diff, in.Old != in.New}, nil
}
