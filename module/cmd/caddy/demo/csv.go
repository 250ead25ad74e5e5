package demo

import (
	"encoding/csv"
	"errors"
	"strings"
)

// A table is the input of readCSV.
type table struct {
	CSV string `json:"csv"`
}

// readCSV returns the columns once, and rows as arrays. Objects would repeat the column names in each
// row, so that a small input could have a huge output.
func readCSV(in table) (any, *failure) {
	records, err := csv.NewReader(strings.NewReader(in.CSV)).ReadAll()
	if fault, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, &failure{
			Code:    "CSV_ERROR",
			Message: "The CSV is malformed: " + fault.Error(),
			Details: object{"line": fault.Line, "column": fault.Column, "reason": fault.Err.Error()},
		}
	}
	if err != nil {
		return nil, &failure{Code: "CSV_ERROR", Message: "The CSV cannot be read: " + err.Error()}
	}
	if len(records) == 0 {
		return nil, &failure{Code: "CSV_ERROR", Message: "The CSV has no record"}
	}
	return object{"columns": records[0], "rows": records[1:]}, nil
}
