package cberr_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
)

func TestEveryKindHasItsOwnNameAndIsACouchbaseError(t *testing.T) {
	names, texts := map[string]bool{}, map[string]bool{}
	for k := range cberr.All() {
		require.Regexp(t, "^[a-z]+(_[a-z]+)*$", k.Name())
		require.Regexp(t, "^[A-Za-z -]+$", k.Error())
		require.False(t, names[k.Name()], k.Name())
		require.False(t, texts[k.Error()], k.Error())
		names[k.Name()], texts[k.Error()] = true, true
		require.ErrorIs(t, k, cberr.Couchbase)
		require.ErrorIs(t, fmt.Errorf("outer: %w", k), k)
		require.Equal(t, k, cberr.KindOf(fmt.Errorf("outer: %w", k)))
	}
}

// The names of the RFC's table, and of what other RFCs add to it.
const specified = `Couchbase Timeout RequestCanceled InvalidArgument ServiceNotAvailable InternalServerFailure AuthenticationFailure
	TemporaryFailure ParsingFailure CasMismatch BucketNotFound CollectionNotFound UnsupportedOperation AmbiguousTimeout
	UnambiguousTimeout FeatureNotAvailable ScopeNotFound IndexNotFound IndexExists EncodingFailure DecodingFailure RateLimited
	QuotaLimited DocumentNotFound DocumentUnretrievable DocumentLocked ValueTooLarge DocumentExists DurabilityLevelNotAvailable
	DurabilityImpossible DurabilityAmbiguous DurableWriteInProgress DurableWriteReCommitInProgress PathNotFound PathMismatch
	PathInvalid PathTooBig PathTooDeep ValueTooDeep ValueInvalid DocumentNotJson NumberTooBig DeltaInvalid PathExists
	XattrUnknownMacro XattrInvalidKeyCombo XattrUnknownVirtualAttribute XattrCannotModifyVirtualAttribute XattrNoAccess
	PlanningFailure IndexFailure PreparedStatementFailure DmlFailure CompilationFailure JobQueueFull DatasetNotFound
	DataverseNotFound DatasetExists DataverseExists LinkNotFound ViewNotFound DesignDocumentNotFound CollectionExists
	ScopeExists UserNotFound GroupNotFound BucketExists UserExists BucketNotFlushable EventingFunctionNotFound
	EventingFunctionNotDeployed EventingFunctionCompilationFailure EventingFunctionIdenticalKeyspace
	EventingFunctionNotBootstrapped EventingFunctionDeployed EventingFunctionPaused Crypto EncryptionFailure
	DecryptionFailure CryptoKeyNotFound InvalidCryptoKey DecrypterNotFound EncrypterNotFound InvalidCiphertext
	DocumentNotFoundOnReplica ReplicaIndexOutOfBounds ReplicaIndexCurrentlyUnavailable TracerException MeterException`

// our own kinds.
const own = `DocumentNotLocked TlsFailure BucketAccess CircuitBreakerOpen`

// The exported variables, the list that All yields and the names that others gave the kinds are the same.
func TestTheTableIsComplete(t *testing.T) {
	var want, got, variables []string
	for _, name := range strings.Fields(specified + " " + own) {
		want = append(want, snake(name))
	}
	for k := range cberr.All() {
		got = append(got, k.Name())
	}
	require.ElementsMatch(t, want, got)

	f, err := parser.ParseFile(token.NewFileSet(), "cberr.go", nil, 0)
	require.NoError(t, err)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			if v := s.(*ast.ValueSpec); v.Names[0].IsExported() {
				variables = append(variables, strings.ToLower(v.Names[0].Name))
			}
		}
	}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], "_", "")
	}
	require.ElementsMatch(t, got, variables, "a variable is called what its kind is called")
}

func snake(name string) string {
	return strings.ToLower(regexp.MustCompile("(.)([A-Z])").ReplaceAllString(name, "${1}_${2}"))
}

func TestParents(t *testing.T) {
	for k := range cberr.All() {
		var want *cberr.Kind
		switch name := k.Name(); {
		case k == cberr.AmbiguousTimeout, k == cberr.UnambiguousTimeout:
			want = cberr.Timeout
		case k == cberr.DocumentNotFoundOnReplica:
			want = cberr.DocumentNotFound
		case slices.Contains([]*cberr.Kind{
			cberr.EncryptionFailure, cberr.DecryptionFailure, cberr.CryptoKeyNotFound, cberr.InvalidCryptoKey,
			cberr.DecrypterNotFound, cberr.EncrypterNotFound, cberr.InvalidCiphertext,
		}, k):
			want = cberr.Crypto
		default:
			for other := range cberr.All() {
				require.Equal(t, other == k || other == cberr.Couchbase, errors.Is(k, other), "%s and %s", name,
					other.Name())
			}
			continue
		}
		for other := range cberr.All() {
			require.Equal(t, other == k || other == want || other == cberr.Couchbase, errors.Is(k, other), "%s and %s",
				k.Name(), other.Name())
		}
	}
}

func TestTimeoutsMatchTheStandardDeadline(t *testing.T) {
	for _, k := range []*cberr.Kind{cberr.Timeout, cberr.AmbiguousTimeout, cberr.UnambiguousTimeout} {
		require.ErrorIs(t, k, cberr.Timeout)
		require.ErrorIs(t, k, context.DeadlineExceeded)
	}
	require.NotErrorIs(t, cberr.AmbiguousTimeout, cberr.UnambiguousTimeout)
	require.NotErrorIs(t, cberr.Timeout, cberr.AmbiguousTimeout)
	require.NotErrorIs(t, cberr.RequestCanceled, context.DeadlineExceeded)
	require.NotErrorIs(t, cberr.RequestCanceled, context.Canceled)
}

func TestKindOfIsTheFirstOrAMoreSpecificOne(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("x: %w", err) }
	for _, tc := range []struct {
		err  error
		want *cberr.Kind
	}{
		{nil, nil},
		{errors.New("other"), nil},
		{context.DeadlineExceeded, nil},
		{errors.Join(wrap(cberr.AmbiguousTimeout), cberr.AuthenticationFailure), cberr.AmbiguousTimeout},
		{
			errors.Join(errors.New("other"), wrap(wrap(cberr.AuthenticationFailure)), cberr.Timeout),
			cberr.AuthenticationFailure,
		},
		{errors.Join(cberr.Couchbase, wrap(cberr.DocumentNotFound)), cberr.DocumentNotFound},
		{errors.Join(cberr.Timeout, cberr.DocumentNotFound, wrap(cberr.UnambiguousTimeout)), cberr.UnambiguousTimeout},
		{errors.Join(cberr.UnambiguousTimeout, cberr.Timeout, cberr.Couchbase), cberr.UnambiguousTimeout},
		{
			fmt.Errorf("%w, %w", cberr.DocumentNotFound, cberr.DocumentNotFoundOnReplica),
			cberr.DocumentNotFoundOnReplica,
		},
	} {
		require.Equal(t, tc.want, cberr.KindOf(tc.err), "%v", tc.err)
	}
}

func TestAllCanBeLeftBeforeItsEnd(t *testing.T) {
	var some []string
	for k := range cberr.All() {
		if some = append(some, k.Name()); len(some) == 3 {
			break
		}
	}
	require.Equal(t, []string{"couchbase", "timeout", "request_canceled"}, some)
}
