//! What templates find there: filters, tests, functions and methods.

mod arguments;
mod format;
mod function;
mod json;
mod map_method;
mod markup;
mod number;
mod order;
mod select;
mod sequence;
mod test;
mod text;
mod text_method;
mod wrap;

use std::rc::Rc;

pub(crate) use arguments::Arguments;
pub(crate) use format::printf;

use crate::error::{Result, TemplateError};
use crate::meter::Meter;
use crate::value::Value;

/// A filter: the value it stands behind, then its arguments.
type Filter = fn(&Value, &mut Arguments) -> Result<Value>;

/// Filters by name.
static FILTERS: &[(&str, Filter)] = &[
    ("abs", number::abs),
    ("attr", select::attr),
    ("batch", sequence::batch),
    ("bool", number::bool),
    ("capitalize", text::capitalize),
    ("center", text::center),
    ("count", sequence::length),
    ("d", sequence::default),
    ("default", sequence::default),
    ("dictsort", order::dictsort),
    ("e", markup::escape),
    ("escape", markup::escape),
    ("filesizeformat", number::filesizeformat),
    ("first", sequence::first),
    ("float", number::float),
    ("forceescape", markup::escape),
    ("format", format::format_filter),
    ("groupby", order::groupby),
    ("indent", text::indent),
    ("int", number::int),
    ("items", sequence::items),
    ("join", sequence::join),
    ("last", sequence::last),
    ("length", sequence::length),
    ("lines", text::lines),
    ("list", sequence::list),
    ("lower", text::lower),
    ("map", select::map),
    ("max", order::max),
    ("min", order::min),
    ("pprint", text::pprint),
    ("reject", select::reject),
    ("rejectattr", select::rejectattr),
    ("replace", text::replace),
    ("reverse", sequence::reverse),
    ("round", number::round),
    ("safe", text::string),
    ("select", select::select),
    ("selectattr", select::selectattr),
    ("slice", sequence::slice),
    ("sort", order::sort),
    ("split", text::split),
    ("string", text::string),
    ("striptags", markup::striptags),
    ("sum", number::sum),
    ("title", text::title),
    ("tojson", json::tojson),
    ("trim", text::trim),
    ("truncate", text::truncate),
    ("unique", order::unique),
    ("upper", text::upper),
    ("urlencode", text::urlencode),
    ("wordcount", text::wordcount),
    ("wordwrap", wrap::wordwrap),
    ("xmlattr", markup::xmlattr),
];

/// Functions by name; the renderer itself knows `strftime_now`.
static FUNCTIONS: &[&str] = &[
    "cycler",
    "dict",
    "joiner",
    "namespace",
    "raise_exception",
    "range",
    "strftime_now",
];

/// Applies a filter.
///
/// Errors: for an unknown one, and the filter's own.
pub(crate) fn filter(
    name: &str,
    value: Value,
    mut arguments: Arguments,
    meter: &Rc<Meter>,
) -> Result<Value> {
    let Ok(index) = FILTERS.binary_search_by_key(&name, |(name, _)| name) else {
        return Err(TemplateError::operation(format!(
            "the filter '{name}' is unknown"
        )));
    };
    meter.work(1)?;
    let result = FILTERS[index].1(&value, &mut arguments)?;
    arguments.finish(name)?;
    Ok(result)
}

/// Applies a test.
///
/// Errors: for an unknown one, and the test's own.
pub(crate) fn test(name: &str, value: &Value, mut arguments: Arguments) -> Result<bool> {
    let holds = test::test(name, value, &mut arguments)?;
    arguments.finish(name)?;
    Ok(holds)
}

/// The function of a name, undefined where there is none.
pub(crate) fn function(name: &str) -> Value {
    match FUNCTIONS.binary_search(&name) {
        Ok(index) => Value::Function(FUNCTIONS[index]),
        Err(_) => Value::Undefined,
    }
}

/// Calls a function.
pub(crate) fn call(name: &str, mut arguments: Arguments) -> Result<Value> {
    let result = match name {
        "dict" => return function::dict(arguments),
        "namespace" => return function::namespace(arguments),
        "cycler" => function::cycler(&mut arguments)?,
        "joiner" => function::joiner(&mut arguments)?,
        "raise_exception" => function::raise_exception(&mut arguments)?,
        _ => function::range(&mut arguments)?,
    };
    arguments.finish(name)?;
    Ok(result)
}

/// Whether a value has a method of a name.
pub(crate) fn has_method(value: &Value, name: &str) -> bool {
    match value {
        Value::Text(_) => text_method::METHODS.binary_search(&name).is_ok(),
        Value::Map(_) => map_method::MAP_METHODS.binary_search(&name).is_ok(),
        Value::List(_) => map_method::LIST_METHODS.binary_search(&name).is_ok(),
        Value::Cycler(_) => matches!(name, "next" | "reset"),
        _ => false,
    }
}

/// Calls a method.
///
/// Errors: for an unknown one, and the method's own.
pub(crate) fn method(value: &Value, name: &str, mut arguments: Arguments) -> Result<Value> {
    let result = match value {
        Value::Text(text) => text_method::call(text, name, &mut arguments)?,
        Value::Map(map) => map_method::call(value, map, name, &mut arguments)?,
        Value::List(list) => map_method::call_list(value, list, name, &mut arguments)?,
        Value::Loop(state) => state.method(name, &mut arguments)?,
        Value::Cycler(cycler) if name == "next" => Some(cycler.next()),
        Value::Cycler(cycler) if name == "reset" => {
            cycler.reset();
            Some(Value::None)
        }
        _ => None,
    };
    let Some(result) = result else {
        return Err(TemplateError::operation(format!(
            "a {} has no method '{name}'",
            value.kind()
        )));
    };
    arguments.finish(name)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_sorted() {
        assert!(FILTERS.is_sorted_by_key(|(name, _)| *name));
        assert!(FUNCTIONS.is_sorted());
        assert!(text_method::METHODS.is_sorted());
        assert!(map_method::MAP_METHODS.is_sorted());
        assert!(map_method::LIST_METHODS.is_sorted());
    }
}
