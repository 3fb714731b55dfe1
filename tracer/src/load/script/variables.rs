//! A client's variables: names are resolved once, values are found by index.

use std::collections::HashMap;
use std::sync::Arc;

use super::value::{EvaluationError, Misread, Value};

/// The names that scripts mention, each with its index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<String, usize>, Vec<String>);

impl Names {
    /// The index of a name, new or not.
    pub(crate) fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.0.get(name) {
            return *index;
        }
        self.0.insert(name.to_owned(), self.1.len());
        self.1.push(name.to_owned());
        self.1.len() - 1
    }

    /// The index of a name that something mentions.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }

    /// The name at an index.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.1[index]
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.1.len()
    }
}

/// What a variable is now.
#[derive(Clone, Copy, Debug)]
enum State {
    Undefined,
    Value(Value),
    /// The text beside it; the value is what the text looks like, if anything.
    Text(Result<Value, Misread>),
}

#[derive(Clone, Debug)]
struct Variable {
    state: State,
    /// Kept for its memory when the state needs none.
    text: Vec<u8>,
}

/// The values of all variables of one client.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    variables: Vec<Variable>,
    names: Arc<Names>,
}

impl Variables {
    /// All of them undefined.
    pub(crate) fn new(names: Arc<Names>) -> Self {
        let undefined = Variable { state: State::Undefined, text: Vec::new() };
        Self { variables: vec![undefined; names.count()], names }
    }

    /// The index of a name that a script mentions.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// The name at an index.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.name(index)
    }

    /// Sets the result of an expression.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: Value) {
        self.variables[index].state = State::Value(value);
    }

    /// Sets a text, which is sent as it is and read as a value when an expression uses it.
    pub(crate) fn set_text(&mut self, index: usize, text: &[u8]) {
        let variable = &mut self.variables[index];
        variable.state = State::Text(Value::read(text));
        variable.text.clear();
        variable.text.extend_from_slice(text);
    }

    /// What an expression sees.
    pub(crate) fn value(&self, index: usize) -> Result<Value, EvaluationError> {
        let variable = &self.variables[index];
        match variable.state {
            State::Value(value) => Ok(value),
            State::Text(value) => {
                value.map_err(|misread| misread.explain(self.names.name(index), &variable.text))
            }
            State::Undefined => {
                let name = self.names.name(index);
                Err(EvaluationError(format!("undefined variable \"{name}\"")))
            }
        }
    }

    /// Appends what a statement gets; false, and nothing, where the variable is undefined.
    #[inline]
    pub(crate) fn write(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let variable = &self.variables[index];
        match &variable.state {
            State::Undefined => return false,
            State::Value(value) => value.write(out),
            State::Text(_) => out.extend_from_slice(&variable.text),
        }
        true
    }
}
