package wire

import (
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// TaskQuery are the params of the methods that read, cancel or watch one task.
type TaskQuery struct {
	ID string
	// HistoryLength is the largest number of messages in the answer; nil: the default of the version.
	HistoryLength *int
	// Tenant is a member of 1.0; empty: none.
	Tenant string
}

const (
	queryID = iota
	queryHistoryLength
	queryTenant
)

var queryNames = []string{"id", "historyLength", "tenant"}

// DecodeTaskQuery decodes the params of the methods that read, cancel or watch one task.
func DecodeTaskQuery(v Version, params jsonrpc.Object) (TaskQuery, []Violation) {
	d := decoder{version: v}
	o := d.object("", queryNames, params)
	q := TaskQuery{ID: o.requiredID(queryID), HistoryLength: o.count(queryHistoryLength)}
	if v == V10 {
		q.Tenant = o.text(queryTenant)
	}
	return q, d.violations
}

// ListQuery are the params of ListTasks, which only 1.0 has.
type ListQuery struct {
	Context   string     // empty: all
	State     task.State // 0: all
	PageSize  int        // 0: the default
	PageToken string
	// HistoryLength is the largest number of messages of each task in the answer; nil: all.
	HistoryLength *int
	// Since selects tasks whose status has this time or a later one; zero: all.
	Since time.Time
	// Artifacts says that the answer has the artifacts of the tasks.
	Artifacts bool
	Tenant    string // empty: none
}

const (
	listContext = iota
	listStatus
	listPageSize
	listPageToken
	listHistoryLength
	listSince
	listArtifacts
	listTenant
)

var listNames = []string{"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts", "tenant"}

// DefaultPageSize is the page size of ListTasks if the params have none.
const DefaultPageSize = 50

const maxPageSize = 100

// DecodeList decodes the params of ListTasks.
func DecodeList(params jsonrpc.Object) (ListQuery, []Violation) {
	d := decoder{version: V10}
	o := d.object("", listNames, params)
	q := ListQuery{
		Context: o.id(listContext), PageToken: o.text(listPageToken), HistoryLength: o.count(listHistoryLength),
		Artifacts: o.flag(listArtifacts, false), Tenant: o.text(listTenant),
	}
	if o.has(listPageSize) {
		n := o.count(listPageSize)
		switch {
		case n == nil:
		case *n < 1 || *n > maxPageSize:
			o.wrong(listPageSize, "must be from 1 to 100")
		default:
			q.PageSize = *n
		}
	}
	if o.has(listStatus) {
		n := len(d.violations)
		i := slices.Index(stateNames[:], o.text(listStatus))
		if i < 0 {
			if n == len(d.violations) {
				o.wrong(listStatus, "must be the name of a state, such as TASK_STATE_WORKING")
			}
			i = 0
		}
		q.State = task.State(i)
	}
	if o.has(listSince) {
		n := len(d.violations)
		var err error
		if q.Since, err = time.Parse(time.RFC3339Nano, o.text(listSince)); err != nil && n == len(d.violations) {
			o.wrong(listSince, "must be a time such as 2025-10-28T10:30:00.000Z")
		}
	}
	return q, d.violations
}
