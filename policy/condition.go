package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

const (
	// conditionCostLimit bounds one evaluation of one expression, in CEL's cost units. Only this stops an
	// expression hard: a deadline is checked between iterations only.
	conditionCostLimit = 10_000
	// pluginCostLimit bounds the evaluation of all conditions of a plugin for one event.
	pluginCostLimit = 50_000
	// maxConditions is Kubernetes' limit for matchConditions of an admission webhook.
	maxConditions = 64
	// maxExpression bounds the source of one expression, in bytes.
	maxExpression = 16 << 10
	// maxNesting bounds comprehensions within comprehensions.
	maxNesting = 3
)

// condition is a compiled match condition.
type condition struct {
	name    string
	program cel.Program
	checked *cel.Ast
	// container says that the expression mentions container, and so applies to container events only.
	container bool
}

// celEnv builds the environments of expressions when the first one is met: it costs milliseconds.
type celEnv struct {
	env, replies *cel.Env
	err          error
}

func (e *celEnv) get() (*cel.Env, error) {
	if e.env == nil && e.err == nil {
		pod, container := &api.PodSandbox{}, &api.Container{}
		e.env, e.err = cel.NewEnv(
			cel.OptionalTypes(),
			cel.Types(pod, container),
			cel.Variable("pod", cel.ObjectType(string(pod.ProtoReflect().Descriptor().FullName()))),
			cel.Variable("container", cel.ObjectType(string(container.ProtoReflect().Descriptor().FullName()))),
			cel.ParserExpressionSizeLimit(maxExpression),
			cel.ASTValidators(
				cel.ValidateDurationLiterals(),
				cel.ValidateTimestampLiterals(),
				cel.ValidateRegexLiterals(),
				cel.ValidateComprehensionNestingLimit(maxNesting),
			),
		)
	}
	return e.env, e.err
}

// withReply is the environment of permission rules: that of conditions, and reply.
func (e *celEnv) withReply() (*cel.Env, error) {
	env, err := e.get()
	if err == nil && e.replies == nil {
		reply := &api.CreateContainerResponse{}
		e.replies, e.err = env.Extend(
			cel.Types(reply),
			cel.Variable("reply", cel.ObjectType(string(reply.ProtoReflect().Descriptor().FullName()))),
		)
	}
	return e.replies, e.err
}

// compileConditions compiles the match conditions of a selector.
func (d *document) compileConditions(path string, specs []MatchCondition, env *celEnv) []condition {
	return d.compileExpressions(path, specs, func(_, expression string) (condition, string, error) { return env.compile(expression) })
}

// compileExpressions compiles a list of named expressions.
func (d *document) compileExpressions(path string, specs []MatchCondition, compile func(at, expression string) (condition, string, error)) []condition {
	if len(specs) > maxConditions {
		d.errorf(path, "join some of them with &&", "%d conditions are more than the limit of %d", len(specs), maxConditions)
		return nil
	}
	var out []condition
	names := make(map[string]int, len(specs))
	for i, s := range specs {
		at := indexPath(path, i)
		switch first, dup := names[s.Name]; {
		case d.failedUnder(at + ".name"):
		case !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`).MatchString(s.Name):
			d.errorf(at+".name", `write a name such as "gpu-only"`, "%q is not a name of 1 to 63 letters, digits, '-', '_', '.' and '/'", s.Name)
		case dup:
			d.errorf(at+".name", "give each condition a name of its own", "the name %q is used already, in line %d", s.Name, first)
		default:
			names[s.Name] = d.at(at + ".name").line
		}
		if d.failedUnder(at + ".expression") {
			continue
		}
		c, remedy, err := compile(at+".expression", s.Expression)
		if err != nil {
			d.errorf(at+".expression", remedy, "%v", err)
			continue
		}
		c.name = s.Name
		out = append(out, c)
	}
	return out
}

// compile compiles one match condition; a remedy comes with the error.
func (e *celEnv) compile(expression string) (condition, string, error) {
	env, err := e.get()
	if err != nil {
		return condition{}, "", fmt.Errorf("set up CEL: %v", err)
	}
	return compileCEL(env, expression, `write CEL, such as pod.labels[?"accelerator"].orValue("") == "gpu"`, "pod", "container")
}

// compileCEL compiles one expression; a remedy comes with the error. variables are the names that it may use.
func compileCEL(env *cel.Env, expression, example string, variables ...string) (condition, string, error) {
	if strings.TrimSpace(expression) == "" {
		return condition{}, example, errors.New("the expression is empty")
	}
	if len(expression) > maxExpression {
		return condition{}, "shorten it", fmt.Errorf("the expression has %d bytes, more than the limit of %d", len(expression), maxExpression)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return condition{}, celRemedy(issues, variables), errors.New(celMessage(issues))
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return condition{}, "compare it with something, for example == true",
			fmt.Errorf("the expression yields %s, not bool", checked.OutputType())
	}
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(conditionCostLimit),
		cel.InterruptCheckFrequency(1),
	)
	if err != nil {
		return condition{}, example, fmt.Errorf("bad expression: %v", err)
	}
	return condition{program: program, checked: checked, container: mentions(checked, "container")}, "", nil
}

// celMessage renders CEL's first complaint in one line.
func celMessage(issues *cel.Issues) string {
	first := issues.Errors()[0]
	message := strings.Join(strings.Fields(first.Message), " ")
	message = strings.ReplaceAll(message, " (in container '')", "")
	return fmt.Sprintf("bad expression, at %d:%d: %s", first.Location.Line(), first.Location.Column()+1, message)
}

func celRemedy(issues *cel.Issues, variables []string) string {
	message := issues.Errors()[0].Message
	if word, ok := quotedAfter(message, "undefined field '"); ok {
		pod, container := (&api.PodSandbox{}).ProtoReflect().Descriptor().Fields(), (&api.Container{}).ProtoReflect().Descriptor().Fields()
		var known []string
		for i := range pod.Len() {
			known = append(known, string(pod.Get(i).Name()))
		}
		for i := range container.Len() {
			known = append(known, string(container.Get(i).Name()))
		}
		if best := nearest(strings.ReplaceAll(word, "_", ""), known); best != "" {
			return "did you mean " + best + "?"
		}
		return "use the field names of NRI's PodSandbox and Container messages, such as runtime_handler"
	}
	if word, ok := quotedAfter(message, "undeclared reference to '"); ok {
		if best := nearest(word, variables); best != "" {
			return "did you mean " + best + "?"
		}
		last := len(variables) - 1
		return "the variables are " + strings.Join(variables[:last], ", ") + " and " + variables[last]
	}
	return "write CEL that yields a bool"
}

func quotedAfter(text, prefix string) (string, bool) {
	_, rest, ok := strings.Cut(text, prefix)
	word, _, _ := strings.Cut(rest, "'")
	return word, ok
}

// mentions says whether the identifier stands anywhere in the expression.
func mentions(checked *cel.Ast, name string) bool {
	found := false
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || (e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == name)
	}))
	return found
}

// evaluate applies the truth table: one false is no match, else one error is an error, else a match.
// A nil container is a pod event.
func (p *Plugin) evaluate(pod *api.PodSandbox, c *api.Container) Decision {
	if len(p.conditions) == 0 {
		return Decision{Selected: true}
	}
	var failed *Decision
	p.eachCondition(pod, c, func(cond condition, holds bool, err error) bool {
		switch {
		case err != nil && failed == nil:
			failed = &Decision{
				Part: PartMatchConditions, Detail: cond.name,
				Err: fmt.Errorf("evaluate match condition %q: %w", cond.name, err),
			}
		case err == nil && !holds:
			failed = &Decision{Part: PartMatchConditions, Detail: cond.name}
			return false
		}
		return true
	})
	if failed != nil {
		return *failed
	}
	return Decision{Selected: true}
}

// eachCondition evaluates the conditions that apply, in order, until yield says stop.
func (p *Plugin) eachCondition(pod *api.PodSandbox, c *api.Container, yield func(cond condition, holds bool, err error) bool) {
	if pod == nil {
		pod = &api.PodSandbox{}
	}
	vars := map[string]any{"pod": pod}
	if c != nil {
		vars["container"] = c
	}
	evaluateAll(p.conditions, vars, c == nil, yield)
}

// evaluateAll evaluates expressions in order until yield says stop, within the limits for one and for all of them. podOnly leaves out those that
// mention container.
func evaluateAll(conditions []condition, vars map[string]any, podOnly bool, yield func(cond condition, holds bool, err error) bool) {
	var spent uint64
	for _, cond := range conditions {
		if cond.container && podOnly {
			continue
		}
		holds, cost, err := false, uint64(0), errPluginCost
		if spent < pluginCostLimit {
			holds, cost, err = cond.evaluate(vars)
			spent += cost
			if err == nil && spent > pluginCostLimit {
				holds, err = false, errPluginCost
			}
		}
		if !yield(cond, holds, err) {
			return
		}
	}
}

var errPluginCost = fmt.Errorf("the conditions of the plugin together cost more than the limit of %d", pluginCostLimit)

// evaluate gives what the expression yields and costs. Its error quotes nothing that the expression looked at.
func (c condition) evaluate(vars map[string]any) (holds bool, cost uint64, err error) {
	out, details, err := c.program.Eval(vars)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if err != nil {
		return false, max(cost, 1), withoutValue(err)
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("the expression yielded %s, not bool", out.Type().TypeName())
	}
	return holds, cost, nil
}

func (p *Plugin) explainConditions(pod *api.PodSandbox, c *api.Container) []PartResult {
	if len(p.conditions) == 0 {
		return []PartResult{{Part: PartMatchConditions, Matched: true}}
	}
	var out []PartResult
	p.eachCondition(pod, c, func(cond condition, holds bool, err error) bool {
		r := PartResult{Part: PartMatchConditions, Given: true, Matched: holds, Err: err}
		switch {
		case err != nil:
			r.Detail = fmt.Sprintf("%s: %v", cond.name, err)
		case holds:
			r.Detail = cond.name + " is true"
		default:
			r.Detail = cond.name + " is false"
		}
		out = append(out, r)
		return true
	})
	return out
}
