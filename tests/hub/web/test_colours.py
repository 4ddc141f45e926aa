"""A model has one colour wherever it is drawn."""

from hub.web.templatetags.hub_colours import TONES, model_mark, model_tone


def test_a_model_keeps_its_colour_and_names_do_not_share_one_by_design() -> None:
    tones = {model_tone(f"lab/model-{number}") for number in range(100)}
    assert tones == {f"tone{number}" for number in TONES}
    assert model_tone("hub/tiny") in model_mark("hub/tiny")
