package conn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection tells of a crowd when there has been one for some time, and again for as long as it lasts. One read that
// finds few calls in flight does not end it.
func TestACrowdIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		c := &Conn{base: time.Now(), crowded: func() { told++ }}
		reads := func(n, load, answers int) {
			for range n {
				c.noteLoad(load)
				c.Stats.Answers.Add(int64(answers))
				time.Sleep(crowdTime / 10)
			}
		}
		reads(100, Crowd-1, crowdAnswers)
		require.Zero(t, told, "not so many")
		for range 5 {
			reads(1, 2*Crowd, crowdAnswers)
			reads(1, 1, crowdAnswers)
		}
		require.Zero(t, told, "not so long")
		reads(1, 1, crowdAnswers)
		require.Equal(t, 1, told)
		reads(30, Crowd, crowdAnswers)
		require.Equal(t, 4, told)
		reads(20, 0, 0)
		require.Less(t, c.Load(), Crowd/4)
		reads(50, 0, 0)
		require.Zero(t, c.Load())
		reads(50, 0, crowdAnswers)
		told = 0
		reads(10, Crowd, crowdAnswers)
		require.Zero(t, told, "that was another one")
		reads(1, Crowd, crowdAnswers)
		require.Equal(t, 1, told)
	})
	c := &Conn{}
	c.noteLoad(10 * Crowd)
	require.Equal(t, 10*Crowd, c.Load(), "nobody wants to be told")
}

// Calls that get no answers are no crowd, however many they are: another connection would do nothing for them.
func TestCallsWithoutAnswersAreNoCrowd(t *testing.T) {
	for _, every := range []time.Duration{crowdTime, 10 * crowdTime} {
		for answers, crowd := range map[int]bool{crowdAnswers: true, crowdAnswers - 1: false} {
			synctest.Test(t, func(t *testing.T) {
				told := false
				c := &Conn{base: time.Now(), crowded: func() { told = true }}
				for range 10 {
					c.noteLoad(10 * Crowd)
					c.Stats.Answers.Add(int64(answers) * int64(every/crowdTime))
					time.Sleep(every)
				}
				require.Equal(t, crowd, told)
			})
		}
	}
}

// Nor are those that are refused, if they are a fifth or more: such a connection does not stay on its processor either.
func TestCallsThatAreRefusedAreNoCrowd(t *testing.T) {
	for refused, crowd := range map[int64]bool{0: true, 1: true, 2: false} {
		synctest.Test(t, func(t *testing.T) {
			told := false
			c := &Conn{base: time.Now(), crowded: func() { told = true }, pair: &Pair{}}
			c.pair.busy.Add(1)
			c.pair.Begin(2)
			for range 30 {
				c.noteLoad(10 * Crowd)
				c.Stats.Answers.Add(9 * crowdAnswers / 10)
				c.refusals += refused * crowdAnswers / 10
				time.Sleep(crowdTime / 10)
			}
			require.Equal(t, crowd, told, refused)
			require.Equal(t, crowd, c.stays(), refused)
			c.relay.stop()
			c.wg.Wait()
		})
	}
}

// Where readers would linger few are a crowd, and few are too few for two connections, but not while they do not linger.
func TestAnEarlyCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		c := &Conn{base: time.Now(), crowded: func() { told++ }, early: true, pair: &Pair{}}
		reads := func(load int) {
			for range 30 {
				c.noteLoad(load)
				c.Stats.Answers.Add(crowdAnswers)
				time.Sleep(crowdTime / 10)
			}
		}
		reads(earlyCrowd - 1)
		require.Zero(t, told)
		reads(earlyCrowd)
		require.Positive(t, told)
		require.True(t, c.busy)
		reads(earlyCrowd / 2)
		require.True(t, c.busy, "it is one of two")
		reads(earlyCrowd/2 - 1)
		require.False(t, c.busy)

		require.Equal(t, Crowd/2, (&Conn{pair: c.pair}).Few())
		require.Equal(t, earlyCrowd/2, c.Few())
		now := c.now()
		c.pair.restUntil(now)
		require.Equal(t, Crowd, c.Few())
		require.Equal(t, Crowd/2, (&Conn{pair: c.pair}).Few())
		c.pair.over(now - 1)
		require.Equal(t, Crowd, c.Few())
		c.pair.over(now)
		require.Equal(t, earlyCrowd/2, c.Few())
		(*Pair)(nil).over(now)
	})
}
