//! Calls of `group.h` on padding.

use std::mem::size_of;

use super::*;
use crate::padding::{MaskRule, PadOptions, Padding, Shapes};

/// The options for samples of this number of dimensions and this padded shape. The pointer in them lives as long as
/// `options`.
fn pad_options<T: Copy>(
    options: &PadOptions<'_, T>,
    dimensions: usize,
    shape: &[i64],
) -> Result<sys::sab_pad_options, Error> {
    let mut given = *options.raw;
    match &options.padding {
        Padding::Constant(value) => given.value = std::ptr::from_ref(value).cast(),
        Padding::Repeat(value) => {
            given.padding = sys::SAB_PADDING_REPEAT;
            given.value = std::ptr::from_ref(value).cast();
        }
        Padding::Array(values, dims) => {
            let mut expected = 1usize;
            for (i, &dim) in dims.iter().enumerate() {
                if dim >= dimensions || (i > 0 && dims[i - 1] >= dim) {
                    return Err(Error::refused(
                        "dims",
                        format!("{dims:?}"),
                        format!(
                            "must be ascending and below the number of dimensions, {dimensions}"
                        ),
                    ));
                }
                given.value_dims |= 1 << dim;
                expected = expected.saturating_mul(shape[dim] as usize);
            }
            if values.len() != expected {
                let count = values.len();
                return Err(Error::refused(
                    "padding.len()",
                    count,
                    format!("must be {expected}, the product of its dimensions"),
                ));
            }
            given.value = values.as_ptr().cast();
        }
    }
    Ok(given)
}

/// The samples, at `values`, and the indices as pointer and count.
fn ragged<T>(shapes: &Shapes, values: *mut c_void) -> Result<sys::sab_ragged, Error> {
    if size_of::<T>() == 0 {
        return Err(Error::refused("size_of::<T>()", "0", "must be at least 1"));
    }
    let mut ragged = empty::<sys::sab_ragged>();
    ragged.samples = shapes.samples();
    ragged.dimensions = shapes.dimensions();
    ragged.element_size = size_of::<T>();
    ragged.shapes = shapes.all().as_ptr();
    ragged.values = values;
    ragged.offsets = shapes.offsets.as_ptr();
    Ok(ragged)
}

fn places(shapes: &Shapes, indices: Option<&[i64]>) -> (*const i64, usize) {
    indices.map_or((null(), shapes.samples()), |indices| (indices.as_ptr(), indices.len()))
}

/// Lengths as the library takes them; none is larger.
pub(crate) fn signed(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|&length| i64::try_from(length).unwrap_or(i64::MAX)).collect()
}

fn product(count: usize, shape: &[i64]) -> Option<usize> {
    shape.iter().try_fold(count, |product, &size| product.checked_mul(usize::try_from(size).ok()?))
}

pub(crate) fn pad<T: Copy>(
    shapes: &Shapes,
    values: &[T],
    indices: Option<&[i64]>,
    options: &PadOptions<'_, T>,
) -> Result<(Vec<T>, Vec<usize>), Error> {
    let samples = ragged::<T>(shapes, values.as_ptr().cast_mut().cast())?;
    let (pointer, count) = places(shapes, indices);
    let mut shape = vec![0i64; shapes.dimensions()];
    // SAFETY: arrays of the lengths said, and room for `dimensions` numbers.
    check(unsafe {
        sys::sab_ragged_get_padded_shape(&samples, pointer, count, shape.as_mut_ptr())
    })?;
    let given = pad_options(options, shapes.dimensions(), &shape)?;
    let total = product(count, &shape).ok_or_else(Error::no_memory)?;
    let mut padded: Vec<T> = Vec::new();
    padded.try_reserve_exact(total).map_err(|_| Error::no_memory())?;
    // SAFETY: values as many as the shapes say (checked), read only; room for the padded elements.
    check(unsafe {
        sys::sab_ragged_pad(
            &samples,
            pointer,
            count,
            shape.as_ptr(),
            &given,
            padded.as_mut_ptr().cast(),
        )
    })?;
    // SAFETY: the call has written every element, each a copy of one of `T: Copy`.
    unsafe { padded.set_len(total) };
    Ok((padded, shape.into_iter().map(|size| size as usize).collect()))
}

pub(crate) fn unpad<T: Copy>(
    shapes: &Shapes,
    padded: &[T],
    shape: &[usize],
    indices: Option<&[i64]>,
    options: &PadOptions<'_, T>,
    values: &mut [T],
) -> Result<(), Error> {
    let samples = ragged::<T>(shapes, values.as_mut_ptr().cast())?;
    let (pointer, count) = places(shapes, indices);
    if shape.len() != shapes.dimensions() {
        let (given, dimensions) = (shape.len(), shapes.dimensions());
        return Err(Error::refused(
            "shape.len()",
            given,
            format!("must be the number of dimensions, {dimensions}"),
        ));
    }
    let shape = signed(shape);
    if product(count, &shape) != Some(padded.len()) {
        let given = padded.len();
        return Err(Error::refused(
            "padded.len()",
            given,
            format!("must be that of {count} samples of shape {shape:?}"),
        ));
    }
    if let Some(indices) = indices {
        let mut is_taken = vec![false; shapes.samples()];
        for (place, &index) in indices.iter().enumerate() {
            let taken = usize::try_from(index).ok().and_then(|index| is_taken.get_mut(index));
            if taken.is_some_and(|taken| std::mem::replace(taken, true)) {
                return Err(Error::refused(
                    format!("indices[{place}]"),
                    index,
                    "must not be repeated",
                ));
            }
        }
    }
    // SAFETY: values as many as the shapes say and padded elements as many as the shape says
    // (checked); no two threads write the same sample.
    check(unsafe {
        sys::sab_ragged_unpad(
            padded.as_ptr().cast(),
            shape.as_ptr(),
            pointer,
            count,
            &*options.raw,
            &samples,
        )
    })?;
    Ok(())
}

pub(crate) fn ragged_mask(
    lengths: &[usize],
    shape: &[usize],
    rule: MaskRule,
) -> Result<Vec<bool>, Error> {
    let dims = shape.len();
    if dims == 0 || lengths.len() % dims != 0 {
        let given = lengths.len();
        return Err(Error::refused(
            "shape.len()",
            dims,
            format!("must be at least 1 and divide lengths.len(), {given}"),
        ));
    }
    let count = lengths.len() / dims;
    let (lengths, shape) = (signed(lengths), signed(shape));
    let total = product(count, &shape).ok_or_else(Error::no_memory)?;
    let mut mask = Vec::new();
    mask.try_reserve_exact(total).map_err(|_| Error::no_memory())?;
    mask.resize(total, false);
    let room = if mask.is_empty() { null_mut() } else { mask.as_mut_ptr().cast() };
    // SAFETY: lengths and room as said; only bytes of 0 and 1 are written, which are what a bool
    // is.
    check(unsafe {
        sys::sab_ragged_mask(lengths.as_ptr(), count, shape.as_ptr(), dims, rule.raw(), room)
    })?;
    Ok(mask)
}
