//! The tree of a template. Names and constants stand in tables, the tree holds their places.

/// Place of a name in [`Program::names`].
pub(crate) type NameIndex = usize;
/// Place of a value in [`Program::constants`].
pub(crate) type ConstantIndex = usize;

/// A template, ready to be run.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub body: Vec<Statement>,
    pub macros: Vec<Macro>,
    pub constants: Vec<Constant>,
    /// Every variable that is named somewhere.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    None,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

/// A macro, or the body of a call block.
#[derive(Debug)]
pub(crate) struct Macro {
    pub name: String,
    pub parameters: Vec<(NameIndex, Option<Expression>)>,
    pub body: Vec<Statement>,
}

/// Where an assignment goes.
#[derive(Debug)]
pub(crate) enum Target {
    Name(NameIndex),
    /// `namespace.attribute`
    Attribute(NameIndex, ConstantIndex),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(crate) struct Statement {
    pub line: usize,
    pub kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    Text(ConstantIndex),
    Emit(Expression),
    If {
        branches: Vec<(Expression, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    For(Box<Loop>),
    Set(Target, Expression),
    SetBlock {
        target: Target,
        filters: Vec<Filter>,
        body: Vec<Statement>,
    },
    /// Defines the macro of this place in [`Program::macros`].
    Macro(NameIndex, usize),
    CallBlock {
        call: Expression,
        /// The block, as a macro.
        body: usize,
    },
    FilterBlock {
        filters: Vec<Filter>,
        body: Vec<Statement>,
    },
    /// A block with variables of its own.
    With(Vec<(Target, Expression)>, Vec<Statement>),
    Do(Expression),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub target: Target,
    pub over: Expression,
    pub condition: Option<Expression>,
    pub recursive: bool,
    pub body: Vec<Statement>,
    pub otherwise: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) struct Expression {
    pub line: usize,
    /// Levels of expressions in it.
    pub depth: usize,
    pub kind: ExpressionKind,
}

#[derive(Debug)]
pub(crate) enum ExpressionKind {
    Constant(ConstantIndex),
    Name(NameIndex),
    List(Vec<Expression>),
    Tuple(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    Attribute(Box<Expression>, ConstantIndex),
    Item(Box<Expression>, Box<Expression>),
    /// The value, then start, stop and step.
    Slice(Box<Expression>, Box<[Option<Expression>; 3]>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Positive(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    /// An operator of two values that is no comparison.
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `a < b < c`
    Compare(Box<Expression>, Vec<(&'static str, Expression)>),
    Test {
        value: Box<Expression>,
        name: String,
        arguments: Arguments,
        negated: bool,
    },
    Filter(Box<Expression>, Box<Filter>),
    Call(Box<Expression>, Arguments),
    Conditional {
        condition: Box<Expression>,
        value: Box<Expression>,
        otherwise: Option<Box<Expression>>,
    },
}

#[derive(Debug)]
pub(crate) struct Filter {
    pub line: usize,
    pub name: String,
    pub arguments: Arguments,
}

#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub positional: Vec<Expression>,
    pub named: Vec<(ConstantIndex, Expression)>,
    /// `*list`
    pub unpacked: Option<Box<Expression>>,
    /// `**map`
    pub unpacked_named: Option<Box<Expression>>,
}
