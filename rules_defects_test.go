package couchcore_test

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every defect of other clients, 1 to 118, has a test that bears its number in its name or in its comment.
func TestEveryDefectOfOthersHasItsTest(t *testing.T) {
	test := regexp.MustCompile(`((?m:^//.*\n)*)func (Test\w+)\(`)
	number := regexp.MustCompile(`D([0-9]{1,3})(?:[^0-9]|$)`)
	proved := map[int]bool{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "target" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(name)
		for _, fn := range test.FindAllSubmatch(src, -1) {
			for _, part := range fn[1:] {
				for _, d := range number.FindAllStringSubmatch(string(part), -1) {
					n, _ := strconv.Atoi(d[1])
					proved[n] = true
				}
			}
		}
		return err
	})
	require.NoError(t, err)
	for n := 1; n <= 118; n++ {
		require.True(t, proved[n], "D%d has no test", n)
	}
}
