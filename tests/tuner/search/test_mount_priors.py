"""Known settings of mounts lie in their spaces, whole or with the defaults beside them."""

import pytest

from spaces import juicefs, rclone
from spaces.space import Space
from tuner.search.priors import packaged


@pytest.mark.parametrize(("target", "space"), [("rclone", rclone.SPACE), ("juicefs", juicefs.SPACE)])
def test_known_settings_are_settings_of_the_space(target: str, space: Space) -> None:
    known = packaged(target, {})
    assert len(known) == 2
    for config in known:
        whole = {**space.default, **config}
        assert space.contains(whole)
        assert not space.broken(whole)
