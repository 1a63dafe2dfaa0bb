package observe_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/observe"
)

const canary = "canary-4711"

// holder keeps secrets where a reflecting printer has to dig for them.
type holder struct {
	Public  observe.Secret
	private observe.Secret
	nested  *struct{ s observe.Secret }
	list    []observe.Secret
	byName  map[string]observe.Secret
	any     any
}

type inXML struct{ S observe.Secret }

func newHolder() holder {
	s := observe.NewSecret(canary)
	return holder{s, s, &struct{ s observe.Secret }{s}, []observe.Secret{s}, map[string]observe.Secret{"k": s}, s}
}

func TestSecretPrintsNowhere(t *testing.T) {
	s := observe.NewSecret(canary)
	for _, value := range []any{s, &s, newHolder(), &holder{private: s}, []any{s}, map[string]any{"a": s}} {
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "20", ".3"} {
			for verb := 'A'; verb <= 'z'; verb++ {
				text := fmt.Sprintf("%"+flags+string(verb), value)
				require.NotContains(t, text, canary)
				require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", canary))
			}
		}
		j, err := json.Marshal(value)
		require.NoError(t, err)
		require.NotContains(t, string(j), canary)
		require.NotContains(t, fmt.Errorf("login: %v", value).Error(), canary)

		var text, js bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("m", "v", value)
		slog.New(slog.NewJSONHandler(&js, nil)).Info("m", "v", value)
		require.NotContains(t, text.String(), canary)
		require.NotContains(t, js.String(), canary)
	}
	x, err := xml.Marshal(inXML{s})
	require.NoError(t, err)
	require.NotContains(t, string(x), canary)
	require.Equal(t, "***", s.String())
	require.Equal(t, "***", s.GoString())
}

func TestSecretRevealsToItsUser(t *testing.T) {
	require.Equal(t, canary, observe.NewSecret(canary).Reveal())
	require.False(t, observe.NewSecret(canary).Empty())
	require.Empty(t, observe.Secret{}.Reveal())
	require.True(t, observe.NewSecret("").Empty())
	require.Equal(t, "***", observe.Secret{}.String(), "that there is no secret is not told either")
}
