package demo

import (
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An invocation is what matters of a checked InvocationRequest (section 5.3).
type invocation struct {
	arguments arguments
	timeout   time.Duration // 0: the caller named none
}

// Arguments are the inputs of a run by name: a string or an int each, with
// the defaults filled in.
type arguments map[string]any

func (a arguments) text(name string) string {
	s, _ := a[name].(string)
	return s
}

func (a arguments) number(name string) int {
	n, _ := a[name].(int)
	return n
}

// A members is a JSON object taken apart.
type members map[string]jsontext.Value

// readInvocation checks an InvocationRequest against the protocol and against
// the inputs of the skill, and returns all faults it finds.
func readInvocation(body []byte, id string, inputs []parameter) (invocation, []fault) {
	var c checker
	var request members
	if err := json.Unmarshal(body, &request); err != nil || request == nil {
		return invocation{}, []fault{{Message: "the body is not a JSON object with unique member names in UTF-8", Expected: "object"}}
	}

	caller := c.object(request, "", "caller", true)
	if caller != nil {
		c.text(caller, "/caller", "id", true)
		c.text(caller, "/caller", "type", true)
		c.object(caller, "/caller", "credentials", false)
	}

	if got, ok := c.text(request, "", "skill_id", true); ok && got != id {
		c.add(fault{"/skill_id", "this endpoint runs another skill", id, got})
	}

	var inv invocation
	if values := c.object(request, "", "inputs", true); values != nil {
		inv.arguments = c.arguments(values, inputs)
	}

	if context := c.object(request, "", "context", false); context != nil {
		c.text(context, "/context", "trace_id", false)
		priorities := []string{"low", "normal", "high"}
		if priority, ok := c.text(context, "/context", "priority", false); ok && !slices.Contains(priorities, priority) {
			c.add(fault{"/context/priority", "must be equal to one of the allowed values", priorities, priority})
		}
		inv.timeout = c.timeout(context)
	}
	return inv, c.faults
}

// A checker collects faults.
type checker struct{ faults []fault }

func (c *checker) add(f fault) { c.faults = append(c.faults, f) }

// member returns a member of the wanted kind, or nil and, unless it is
// optional and absent, a fault.
func (c *checker) member(object members, parent, name string, want jsontext.Kind, required bool) jsontext.Value {
	value, ok := object[name]
	if !ok {
		if required {
			c.add(fault{Path: parent + "/" + name, Message: "is required", Expected: kindName(want)})
		}
		return nil
	}
	if value.Kind() != want {
		c.add(fault{parent + "/" + name, "has the wrong type", kindName(want), kindName(value.Kind())})
		return nil
	}
	return value
}

func (c *checker) object(object members, parent, name string, required bool) members {
	value := c.member(object, parent, name, '{', required)
	if value == nil {
		return nil
	}
	var inner members
	if err := json.Unmarshal(value, &inner); err != nil {
		// the whole body has been parsed by the same rules before
		c.add(fault{Path: parent + "/" + name, Message: "is not valid JSON"})
		return nil
	}
	return inner
}

func (c *checker) text(object members, parent, name string, required bool) (string, bool) {
	value := c.member(object, parent, name, '"', required)
	if value == nil {
		return "", false
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		c.add(fault{Path: parent + "/" + name, Message: "is not valid JSON"})
		return "", false
	}
	if required && s == "" {
		c.add(fault{Path: parent + "/" + name, Message: "must not be empty"})
		return "", false
	}
	return s, true
}

func (c *checker) timeout(context members) time.Duration {
	value := c.member(context, "/context", "timeout_ms", '0', false)
	if value == nil {
		return 0
	}
	ms, err := strconv.ParseFloat(string(value), 64)
	if err != nil || ms <= 0 {
		c.add(fault{"/context/timeout_ms", "must be a positive number of milliseconds", "> 0", value})
		return 0
	}
	// no run takes longer than maxRunTime, so a longer timeout says nothing
	return time.Duration(min(ms, float64(maxRunTime.Milliseconds()+1)) * float64(time.Millisecond))
}

// arguments checks the values a skill declares and ignores all others.
func (c *checker) arguments(values members, inputs []parameter) arguments {
	args := make(arguments, len(inputs))
	for _, in := range inputs {
		if _, given := values[in.Name]; !given && !in.Required {
			args[in.Name] = in.Default
			continue
		}
		switch in.Type {
		case "string":
			c.textArgument(args, values, in)
		case "integer":
			c.numberArgument(args, values, in)
		}
	}
	return args
}

func (c *checker) textArgument(args arguments, values members, in parameter) {
	value := c.member(values, "/inputs", in.Name, '"', true)
	if value == nil {
		return
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		c.add(fault{Path: "/inputs/" + in.Name, Message: "is not valid JSON"})
		return
	}
	if n := utf8.RuneCountInString(s); n < in.Schema.MinLength || n > in.Schema.MaxLength {
		c.add(fault{
			"/inputs/" + in.Name,
			"has the wrong length",
			"string of " + strconv.Itoa(in.Schema.MinLength) + " to " + strconv.Itoa(in.Schema.MaxLength) + " characters",
			strconv.Itoa(n) + " characters",
		})
		return
	}
	args[in.Name] = s
}

func (c *checker) numberArgument(args arguments, values members, in parameter) {
	value := c.member(values, "/inputs", in.Name, '0', true)
	if value == nil {
		return
	}
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || n != math.Trunc(n) || n < float64(*in.Schema.Minimum) || n > float64(*in.Schema.Maximum) {
		c.add(fault{
			"/inputs/" + in.Name,
			"is out of range",
			"integer from " + strconv.Itoa(*in.Schema.Minimum) + " to " + strconv.Itoa(*in.Schema.Maximum),
			value,
		})
		return
	}
	args[in.Name] = int(n)
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	default:
		return "null"
	}
}
