package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completed is a command, or "" for the whole: what may follow it.
type completed struct {
	path     string
	help     string
	commands []*kong.Node
	flags    []*kong.Flag // its own, and those of the commands before it
}

// Run implements the command.
func (c *completionCmd) Run(a *app) error {
	all := grammarOf(a.grammar)
	script := map[string]func([]completed) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := fmt.Fprint(a.stdout, script(all))
	return err
}

// grammarOf lists the commands, each behind the one that it belongs to.
func grammarOf(app *kong.Application) (all []completed) {
	var walk func(n *kong.Node, path string, flags []*kong.Flag)
	walk = func(n *kong.Node, path string, flags []*kong.Flag) {
		c := completed{path: path, help: n.Help, flags: slices.Concat(flags, n.Flags)}
		for _, child := range n.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				c.commands = append(c.commands, child)
			}
		}
		all = append(all, c)
		for _, child := range c.commands {
			walk(child, strings.TrimSpace(path+" "+child.Name), c.flags)
		}
	}
	walk(app.Node, "", nil)
	return all
}

// words are what may follow: commands, then flags.
func (c *completed) words() (list []string) {
	for _, n := range c.commands {
		list = append(list, n.Name)
	}
	for _, f := range c.flags {
		list = append(list, "--"+f.Name)
	}
	return list
}

// cases are the branches of a shell's case: one for each command, with the words that may follow.
func cases(all []completed, branch func(c *completed) string) string {
	var b strings.Builder
	for i := range all {
		b.WriteString(branch(&all[i]))
	}
	return b.String()
}

// known is a pattern of all commands, as a case has it.
func known(all []completed) string {
	var list []string
	for _, c := range all[1:] {
		list = append(list, fmt.Sprintf("%q", c.path))
	}
	return strings.Join(list, "|")
}

const bashText = `# bash completion for couchcore: source <(couchcore completion bash)
_couchcore() {
  local cur=${COMP_WORDS[COMP_CWORD]} at="" w
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${at:+$at }$w" in
      %s) at="${at:+$at }$w" ;;
    esac
  done
  case "$at" in
%s  esac
}
complete -o default -F _couchcore couchcore
`

func bashScript(all []completed) string {
	return fmt.Sprintf(bashText, known(all), cases(all, func(c *completed) string {
		return fmt.Sprintf("    %q) COMPREPLY=($(compgen -W %q -- \"$cur\")) ;;\n", c.path, strings.Join(c.words(), " "))
	}))
}

const zshText = `#compdef couchcore
# zsh completion for couchcore: couchcore completion zsh > "${fpath[1]}/_couchcore"
_couchcore() {
  local at="" w
  for w in "${(@)words[2,CURRENT-1]}"; do
    case "${at:+$at }$w" in
      %s) at="${at:+$at }$w" ;;
    esac
  done
  case "$at" in
%s  esac
  _files
}
compdef _couchcore couchcore
`

func zshScript(all []completed) string {
	return fmt.Sprintf(zshText, known(all), cases(all, func(c *completed) string {
		return fmt.Sprintf("    %q) compadd -- %s ;;\n", c.path, strings.Join(c.words(), " "))
	}))
}

// fishScript has a line for each command and each flag, with its help.
func fishScript(all []completed) string {
	var b strings.Builder
	b.WriteString("# fish completion for couchcore: couchcore completion fish | source\n")
	for _, c := range all {
		when := "__fish_use_subcommand"
		if c.path != "" {
			var seen []string
			for _, word := range strings.Fields(c.path) {
				seen = append(seen, "__fish_seen_subcommand_from "+word)
			}
			when = strings.Join(seen, "; and ")
		}
		for _, n := range c.commands {
			fmt.Fprintf(&b, "complete -c couchcore -f -n %s -a %s -d %s\n", quoted(when), n.Name, quoted(n.Help))
		}
		for _, f := range c.flags {
			line := fmt.Sprintf("complete -c couchcore -n %s -l %s", quoted(when), f.Name)
			if f.Short != 0 {
				line += " -s " + string(f.Short)
			}
			if !f.IsBool() {
				line += " -r"
			}
			b.WriteString(line + " -d " + quoted(f.Help) + "\n")
		}
	}
	return b.String()
}

// quoted is a text between single quotes, as fish reads it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
