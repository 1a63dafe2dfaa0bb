package services

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of the query service about what a request says beside its statement (errors/service.go of its source).
const (
	notImplemented        = 1020
	unrecognizedValue     = 1030
	badValue              = 1040
	missingValue          = 1050
	unrecognizedParameter = 1065
	typeMismatch          = 1070
)

// parameterCheck is the failure of a parameter's value, nil for a good one. A form has texts only; in a JSON body the
// type matters too.
type parameterCheck func(name string, v any, form bool) *Answer

// parameterChecks are the rules of service_request.go. A parameter without a row may have any value.
var parameterChecks = map[string]parameterCheck{
	"args":             checkArgs,
	"compression":      checkOneOf("NONE", "ZIP", "RLE", "LZMA", "LZO"),
	"durability_level": checkDurability,
	"encoding":         checkOneOf("UTF-8"),
	"format":           checkOneOf("JSON", "XML", "CSV", "TSV"),
	"profile":          checkOneOf("off", "phases", "timings", "benchmark"),
	"scan_consistency": checkOneOf("not_bounded", "request_plus", "statement_plus", "at_plus"),
	"use_replica":      checkUseReplica,

	"auto_execute": checkFlag, "auto_prepare": checkFlag, "metrics": checkFlag, "preserve_expiry": checkFlag,
	"pretty": checkFlag, "readonly": checkFlag, "signature": checkFlag, "sort_projection": checkFlag,
	"tximplicit": checkFlag, "use_cbo": checkFlag, "use_fts": checkFlag,

	"error_limit": checkNumber, "max_index_api": checkNumber, "max_parallelism": checkNumber,
	"memory_quota": checkNumber, "n1ql_feat_ctrl": checkNumber, "numatrs": checkNumber,
	"pipeline_batch": checkNumber, "pipeline_cap": checkNumber, "scan_cap": checkNumber, "txstmtnum": checkNumber,

	"kvtimeout": checkDuration, "scan_wait": checkDuration, "timeout": checkDuration, "txtimeout": checkDuration,

	"client_context_id": checkText, "namespace": checkText, "query_context": checkText, "statement": checkText,
	"txid": checkText,
}

// parameters is the failure of a request that says something that its node does not know or cannot read.
func (x *Call) parameters() *Answer {
	rq := x.rq
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(rq.members)), func(name string) bool {
		return name == "" || name[0] == '$' || name[0] == '@'
	})
	for _, name := range names {
		if !x.s.host.Parameter(rq.Node, name) {
			return failure1(unrecognizedParameter, "Unrecognized parameter in request: %s", name)
		}
	}
	for _, name := range names {
		check := parameterChecks[name]
		if check == nil {
			continue
		}
		var v any
		_ = json.Unmarshal(rq.members[name], &v) // the members of a request are JSON
		if failure := check(name, v, rq.texts[name]); failure != nil {
			return failure
		}
	}
	_, vector := rq.members["scan_vector"]
	_, vectors := rq.members["scan_vectors"]
	if strings.EqualFold(rq.text("scan_consistency"), "at_plus") && !vector && !vectors {
		return failure1(missingValue, "No scan_vector value")
	}
	return nil
}

func checkText(name string, v any, _ bool) *Answer {
	if _, ok := v.(string); !ok {
		return failure1(typeMismatch, "%s has to be of type string", name)
	}
	return nil
}

func checkFlag(name string, v any, form bool) *Answer {
	s, isText := v.(string)
	_, isBool := v.(bool)
	switch {
	case isBool:
	case !form || !isText:
		return failure1(typeMismatch, "%s has to be of type boolean", name)
	case s != "":
		if _, err := strconv.ParseBool(s); err != nil {
			return failure1(badValue, "Error processing %s - cause: unable to parse tristate as a boolean", name)
		}
	}
	return nil
}

func checkNumber(name string, v any, _ bool) *Answer {
	s, isText := v.(string)
	_, isNumber := v.(float64)
	if _, err := strconv.ParseInt(s, 0, 64); !isNumber && !(isText && err == nil) {
		return failure1(badValue, "Error processing %s - cause: %s is invalid", name, name)
	}
	return nil
}

// checkDuration takes texts as Go has them, seconds without a unit, and hours:minutes:seconds.
func checkDuration(name string, v any, form bool) *Answer {
	if failure := checkText(name, v, form); failure != nil {
		return failure
	}
	s := v.(string)
	_, notSeconds := strconv.ParseFloat(s, 64)
	if _, err := time.ParseDuration(s); err != nil && notSeconds != nil && s != "" && !strings.Contains(s, ":") {
		return failure1(badValue, "Error processing duration - cause: Unable to parse duration: %s", s)
	}
	return nil
}

// checkOneOf takes words whatever their case. Formats, encodings and compressions but the first are known to the
// service and not there.
func checkOneOf(words ...string) parameterCheck {
	return func(name string, v any, form bool) *Answer {
		if failure := checkText(name, v, form); failure != nil {
			return failure
		}
		s := v.(string)
		at := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, s) })
		switch {
		case s == "":
		case at < 0:
			return failure1(unrecognizedValue, "Unknown %s value: %s", name, s)
		case at > 0 && words[0] == strings.ToUpper(words[0]):
			return failure1(notImplemented, "%s %s not yet implemented", s, name)
		}
		return nil
	}
}

func checkArgs(name string, v any, form bool) *Answer {
	if _, ok := v.([]any); ok {
		return nil
	}
	if form {
		return failure1(badValue, "Error processing %s - cause: unable to parse args parameter as array", name)
	}
	return failure1(typeMismatch, "%s has to be of type array", name)
}

func checkDurability(name string, v any, form bool) *Answer {
	if failure := checkText(name, v, form); failure != nil {
		return failure
	}
	switch strings.ToLower(v.(string)) {
	case "", "none", "majority", "majorityandpersistactive", "persisttomajority":
		return nil
	}
	return failure1(badValue, "Error processing %s - cause: %s is invalid", name, name)
}

func checkUseReplica(name string, v any, form bool) *Answer {
	if failure := checkText(name, v, form); failure != nil {
		return failure
	}
	switch s := v.(string); strings.ToLower(strings.TrimSpace(s)) {
	case "unset", "off", "on":
		return nil
	default:
		return failure1(badValue, "Error processing %s - cause: Unknown use_replica value: %s", name, s)
	}
}

// missingKeyspace is the status of a statement about what does not exist, from 7.6 on (service_response.go).
func (x *Call) missingKeyspace(code int) (int, bool) {
	switch code {
	case 12002, 12003, 12020: // namespace, keyspace, bucket
		return http.StatusFailedDependency, x.rq.Service == Query && x.s.host.MissingKeyspace(x.rq.Node)
	}
	return 0, false
}
