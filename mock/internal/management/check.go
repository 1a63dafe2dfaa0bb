package management

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Checks of form fields, with the texts of ns_server's validators (validator.erl).

// check turns the text of a field into its value, or says in the second result what is wrong with it.
type check func(text string) (value any, wrong string)

func isBool(text string) (any, string) {
	switch text {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return nil, "The value must be one of the following: [true,false]"
}

func isText(text string) (any, string) { return text, "" }

func isDuration(text string) (any, string) {
	digits := strings.TrimRight(text, "numsh")
	unit := text[len(digits):]
	if _, err := strconv.ParseUint(digits, 10, 64); err != nil ||
		!slices.Contains([]string{"ns", "us", "ms", "s", "m", "h"}, unit) {
		return nil, "Must be in the form of number{ns|us|ms|s|m|h}"
	}
	return text, ""
}

// isInt is an integer of the limits.
func isInt(low, high int64) check {
	return func(text string) (any, string) {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return nil, "The value must be an integer"
		case n < low || n > high:
			return nil, fmt.Sprintf("The value must be in range from %d to %d (inclusive)", low, high)
		}
		return n, ""
	}
}

var anyInt = isInt(math.MinInt64, math.MaxInt64)

// isNumber is a number from 0 to a limit.
func isNumber(high float64) check {
	return func(text string) (any, string) {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
			return nil, "The value must be a number"
		case n < 0 || n > high:
			return nil, fmt.Sprintf("The value must be in range from 0 to %v (inclusive)", high)
		}
		return n, ""
	}
}

// oneOf is one of a list of texts.
func oneOf(texts ...string) check {
	return func(text string) (any, string) {
		if slices.Contains(texts, text) {
			return text, ""
		}
		return nil, fmt.Sprintf("The value must be one of the following: [%s]", strings.Join(texts, ","))
	}
}

// onlyTrue can be switched on, and never off again.
func onlyTrue(text string) (any, string) {
	if text != "true" {
		return nil, "Only accepted value is 'true'."
	}
	return true, ""
}

// isHidden is a secret, of which only its presence is read back.
func isHidden(text string) (any, string) {
	if text == "" {
		return "", ""
	}
	return "**********", ""
}

// isList is a list of texts with commas between them.
func isList(text string) (any, string) {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }), ""
}

const (
	mustBeSupplied = "The value must be supplied"
	unsupportedKey = "Unsupported key"
)

// number is a non-negative number of a bucket's form, with what is wrong about it.
type numberFault uint8

const (
	numberFine numberFault = iota
	numberInvalid
	numberSmall
	numberLarge
)

func parseNumber(text string, low, high int64) (int64, numberFault) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, numberInvalid
	case n < low:
		return 0, numberSmall
	case n > high:
		return 0, numberLarge
	}
	return n, numberFine
}
