//! Samples of different shapes to one array, and back.

use libsab::{ragged_mask, Error, Grouping, MaskRule, PadOptions, Padding, Shapes};

#[test]
fn groups_are_padded_and_come_back() {
    let shapes = Shapes::new(2, &[1, 2, 2, 1, 0, 3]).unwrap();
    let values = [1i16, 2, 3, 4];
    let grouping = Grouping::predefined(&[1, 1, 0], 2).unwrap();
    let options = PadOptions::new(Padding::Constant(-1)).threads(2);
    let (mut back, mut all) = ([0; 4], Vec::new());
    for group in grouping.groups() {
        let (padded, shape) = shapes.pad(&values, Some(group), &options).unwrap();
        shapes.unpad(&padded, &shape, Some(group), &options, &mut back).unwrap();
        all.push((padded, shape));
    }
    let second = vec![1, 2, -1, -1, 3, -1, 4, -1];
    assert_eq!(all, [(vec![], vec![0, 3]), (second, vec![2, 2])]);
    assert_eq!(back, values);
}

#[test]
fn an_array_pads_the_dimensions_that_are_whole() {
    let rotations = Shapes::new(3, &[1, 2, 2, 2, 2, 2]).unwrap();
    let values: Vec<f32> = (1..=12).map(|value| value as f32).collect();
    let identity = [1.0, 0.0, 0.0, 1.0];
    let (padded, shape) =
        rotations.pad(&values, None, &PadOptions::new(Padding::Array(&identity, &[1, 2]))).unwrap();
    assert_eq!(shape, [2, 2, 2]);
    assert_eq!(padded[..8], [1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 0.0, 1.0]);
    let repeated = rotations
        .pad(&values, None, &PadOptions::new(Padding::Repeat(0.0)).batch_dim(3))
        .unwrap()
        .0;
    assert_eq!(repeated[..4], [1.0, 5.0, 2.0, 6.0]);
    assert_eq!(repeated[8..12], [1.0, 9.0, 2.0, 10.0]);
}

#[test]
fn masks_are_of_all_or_any_dimensions() {
    let all = ragged_mask(&[1, 2], &[2, 2], MaskRule::All).unwrap();
    assert_eq!(all, [true, true, false, false]);
    assert_eq!(ragged_mask(&[1, 1], &[2, 2], MaskRule::Any).unwrap(), [true, true, true, false]);
    assert_eq!(ragged_mask(&[], &[3], MaskRule::All).unwrap(), []);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |result: Result<(), Error>, words: &str| match result {
        Err(Error::Argument(message)) => assert!(message.text().contains(words), "{message}"),
        other => panic!("{other:?}"),
    };
    let shapes = Shapes::of_lengths(&[1, 3]).unwrap();
    let options = PadOptions::new(Padding::Constant(0u8));
    refused(Shapes::new(0, &[]).map(drop), "dimensions = 0");
    refused(Shapes::new(2, &[1]).map(drop), "divide the number of shapes, 1");
    refused(Shapes::new(2, &[usize::MAX, 2]).map(drop), "below 2^63");
    refused(
        shapes.pad(&[1, 2, 3], None, &options).map(drop),
        "values.len() = 3: must be that of all shapes, 4",
    );
    let array = PadOptions::new(Padding::Array(&[1, 2, 3], &[0]));
    refused(shapes.pad(&[1, 2, 3, 4], None, &array).map(drop), "padded along dimension 0");
    refused(
        Shapes::of_lengths(&[1])
            .unwrap()
            .pad(&[()], None, &PadOptions::new(Padding::Constant(())))
            .map(drop),
        "size_of::<T>() = 0",
    );
    let mut back = [0; 4];
    refused(
        shapes.unpad(&[1; 6], &[3, 1], None, &options, &mut back),
        "must be the number of dimensions, 1",
    );
    refused(shapes.unpad(&[1; 5], &[3], None, &options, &mut back), "padded.len() = 5");
    refused(shapes.unpad(&[1; 6], &[3], None, &options, &mut back[..2]), "values.len() = 2");
    assert_eq!(back, [0; 4]);
    refused(ragged_mask(&[4], &[], MaskRule::All).map(drop), "at least 1");
}
