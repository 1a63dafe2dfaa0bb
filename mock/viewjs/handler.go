package viewjs

import (
	"errors"
	"fmt"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
)

// handlerArea is what servers call the code of a function.
const handlerArea = "handlerCode"

// CheckHandler reports why a server would not compile the code of a function of the eventing service, and where: the
// syntax, a statement outside of functions, neither OnUpdate nor OnDelete, or one of them twice. Line and column count
// from 1, and are 0 when the error is not at a place. Nothing runs. Statements of SQL++ within the code, which servers
// take, are errors.
func (e *Engine) CheckHandler(code string) (line, column int, err error) {
	if err := readable(code, e.opts.Depth); err != nil {
		return 0, 0, err
	}
	program, err := parser.ParseFile(nil, handlerArea, code, 0)
	if err != nil {
		var list parser.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			return list[0].Position.Line, list[0].Position.Column, errors.New(list[0].Message)
		}
		return 0, 0, err
	}
	handlers := map[string]int{}
	for _, statement := range program.Body {
		f, ok := statement.(*ast.FunctionDeclaration)
		if !ok {
			at := program.File.Position(int(statement.Idx0()) - program.File.Base())
			return at.Line, at.Column, errors.New("only functions are allowed outside of functions")
		}
		handlers[f.Function.Name.Name.String()]++
	}
	for _, name := range []string{"OnUpdate", "OnDelete"} {
		if handlers[name] > 1 {
			return 0, 0, fmt.Errorf("there is more than one function %s", name)
		}
	}
	if handlers["OnUpdate"]+handlers["OnDelete"] == 0 {
		return 0, 0, errors.New("there is no function OnUpdate or OnDelete")
	}
	if _, err = goja.CompileAST(program, false); err != nil { // errors that parsing does not find
		var syntax *goja.CompilerSyntaxError
		if errors.As(err, &syntax) && syntax.File != nil {
			at := syntax.File.Position(syntax.Offset)
			return at.Line, at.Column, errors.New(syntax.Message)
		}
		return 0, 0, err
	}
	return 0, 0, nil
}
