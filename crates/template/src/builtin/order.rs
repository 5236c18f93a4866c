//! Filters that compare items.

use std::rc::Rc;

use super::{Arguments, select};
use crate::error::{Result, TemplateError};
use crate::meter::Meter;
use crate::value::{ListBuilder, SortKey, Value, equal};

/// The items in the order of their attributes, several of them separated by commas.
fn sorted(
    items: &[Value],
    attributes: Option<&Value>,
    fold: bool,
    reverse: bool,
    meter: &Rc<Meter>,
) -> Result<Vec<Value>> {
    let paths = paths(attributes, meter)?;
    let mut charge = meter.charge(0)?;
    let mut keyed = Vec::new();
    let mut longest = 0;
    for item in items {
        // the row, its copy while sorting and the result
        charge.grow(4 * size_of::<(Vec<SortKey>, Value)>())?;
        let mut keys = Vec::new();
        for path in &paths {
            let value = select::attribute_of(item, path.as_ref(), meter)?;
            let key = SortKey::new(&value, fold, &mut charge)?;
            longest = longest.max(key.len());
            keys.push(key);
        }
        keyed.push((keys, item.clone()));
    }
    for rows in keyed.windows(2) {
        let mut pairs = rows[0].0.iter().zip(&rows[1].0);
        if pairs.any(|(a, b)| a.is_text() != b.is_text()) {
            return Err(TemplateError::operation(
                "strings and numbers have no order",
            ));
        }
    }
    let n_rounds = 1 + items.len().checked_ilog2().unwrap_or(0) as usize;
    let comparison = paths.len().saturating_mul(2 + longest / 64);
    meter.work(
        items
            .len()
            .saturating_mul(n_rounds)
            .saturating_mul(comparison),
    )?;
    keyed.sort_by(|(a, _), (b, _)| {
        let mut orders = a.iter().zip(b).map(|(a, b)| a.compare(b));
        let order = orders.find(|order| order.is_ne());
        let order = order.unwrap_or(std::cmp::Ordering::Equal);
        if reverse { order.reverse() } else { order }
    });
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

fn paths(attributes: Option<&Value>, meter: &Rc<Meter>) -> Result<Vec<Option<Value>>> {
    match attributes {
        Some(Value::Text(text)) if text.contains(',') => {
            meter.scan(text.len() * 8)?;
            let parts = text.split(',');
            parts
                .map(|part| Ok(Some(Value::text(meter, part.trim())?)))
                .collect()
        }
        other => Ok(vec![other.cloned()]),
    }
}

/// `sort(reverse=false, case_sensitive=false, attribute=none)`
pub(super) fn sort(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let reverse = arguments.flag("reverse", false);
    let fold = !arguments.flag("case_sensitive", false);
    let attribute = arguments.next("attribute").filter(Value::is_given);
    let meter = arguments.meter();
    let items = value.items(meter)?;
    let mut list = ListBuilder::new(meter)?;
    list.extend(&sorted(
        items.items(),
        attribute.as_ref(),
        fold,
        reverse,
        meter,
    )?)?;
    list.value()
}

/// `dictsort(case_sensitive=false, by='key', reverse=false)`: tuples of key and value.
pub(super) fn dictsort(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let fold = !arguments.flag("case_sensitive", false);
    let by = arguments.optional_text("by")?;
    let reverse = arguments.flag("reverse", false);
    let by_value = match by.as_ref().map_or("key", |by| by.as_str()) {
        "key" => 0,
        "value" => 1,
        _ => return Err(TemplateError::operation("dictsort: by 'key' or 'value'")),
    };
    let Value::Map(map) = value else {
        return Err(TemplateError::operation(format!(
            "dictsort of a {}",
            value.kind()
        )));
    };
    let meter = arguments.meter();
    let by = Value::Integer(by_value);
    let mut list = ListBuilder::new(meter)?;
    list.extend(&sorted(
        map.pairs()?.items(),
        Some(&by),
        fold,
        reverse,
        meter,
    )?)?;
    list.value()
}

fn extreme(value: &Value, arguments: &mut Arguments, largest: bool) -> Result<Value> {
    let fold = !arguments.flag("case_sensitive", false);
    let attribute = arguments.next("attribute").filter(Value::is_given);
    let meter = arguments.meter();
    let items = value.items(meter)?;
    // the first of equals, whichever end is asked for
    let sorted = sorted(items.items(), attribute.as_ref(), fold, largest, meter)?;
    Ok(sorted.into_iter().next().unwrap_or(Value::Undefined))
}

pub(super) fn max(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    extreme(value, arguments, true)
}

pub(super) fn min(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    extreme(value, arguments, false)
}

/// A string without its case, where that does not count.
fn folded(value: Value, case_sensitive: bool, meter: &Rc<Meter>) -> Result<Value> {
    match &value {
        Value::Text(text) if !case_sensitive => {
            meter.scan(text.len())?;
            let _room = meter.charge(text.len() * 3)?;
            Value::text(meter, &text.to_lowercase())
        }
        _ => Ok(value),
    }
}

/// `unique(case_sensitive=false, attribute=none)`: the first of each.
pub(super) fn unique(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let case_sensitive = arguments.flag("case_sensitive", false);
    let attribute = arguments.next("attribute").filter(Value::is_given);
    let meter = arguments.meter();
    let mut seen = ListBuilder::new(meter)?;
    let mut unique = ListBuilder::new(meter)?;
    for item in value.items(meter)?.items() {
        let key = select::attribute_of(item, attribute.as_ref(), meter)?;
        let key = folded(key, case_sensitive, meter)?;
        let mut known = false;
        for other in seen.items() {
            if equal(other, &key, meter)? {
                known = true;
                break;
            }
        }
        if !known {
            seen.push(key)?;
            unique.push(item.clone())?;
        }
    }
    unique.value()
}

/// `groupby(attribute, default=none, case_sensitive=false)`: tuples of `grouper` and `list`.
pub(super) fn groupby(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let attribute = arguments.required("attribute")?;
    let default = arguments.next("default").filter(Value::is_given);
    let fold = !arguments.flag("case_sensitive", false);
    if default.is_some() {
        return Err(TemplateError::operation("groupby: no default is supported"));
    }
    let meter = arguments.meter();
    let items = value.items(meter)?;
    let mut groups = ListBuilder::new(meter)?;
    let mut group: Option<(Value, Value, ListBuilder)> = None;
    for item in sorted(items.items(), Some(&attribute), fold, false, meter)? {
        let name = select::attribute_of(&item, Some(&attribute), meter)?;
        let key = folded(name.clone(), !fold, meter)?;
        match &mut group {
            Some((_, other, list)) if equal(other, &key, meter)? => list.push(item)?,
            _ => {
                if let Some((name, _, list)) = group.take() {
                    groups.push(pair(name, list, meter)?)?;
                }
                let mut list = ListBuilder::new(meter)?;
                list.push(item)?;
                group = Some((name, key, list));
            }
        }
    }
    if let Some((name, _, list)) = group {
        groups.push(pair(name, list, meter)?)?;
    }
    groups.value()
}

fn pair(name: Value, list: ListBuilder, meter: &Rc<Meter>) -> Result<Value> {
    let mut pair = ListBuilder::new(meter)?;
    pair.push(name)?;
    pair.push(list.value()?)?;
    pair.tuple()
}
