package demo

import (
	"encoding/csv"
	"errors"
	"strings"
)

// readCSV answers with the columns once and rows of plain fields: an object
// per row would repeat the names, and a few long names could make a small
// input into a huge output.
func readCSV(in arguments) (any, *runError) {
	records, err := csv.NewReader(strings.NewReader(in.text("csv"))).ReadAll()
	if fault, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, &runError{
			Code:    "CSV_ERROR",
			Message: "The CSV is malformed: " + fault.Error(),
			Details: map[string]any{"line": fault.Line, "column": fault.Column, "reason": fault.Err.Error()},
		}
	}
	if err != nil {
		return nil, &runError{Code: "CSV_ERROR", Message: "The CSV cannot be read: " + err.Error()}
	}
	if len(records) == 0 {
		return nil, &runError{Code: "CSV_ERROR", Message: "The CSV has no record"}
	}
	return struct {
		Columns []string   `json:"columns"`
		Rows    [][]string `json:"rows"`
	}{records[0], records[1:]}, nil
}
