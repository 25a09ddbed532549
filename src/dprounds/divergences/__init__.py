"""f-divergences and their joint range: what the value of one says of another, for every pair of distributions.

How far apart are two distributions?

>>> from dprounds.divergences import kl, total_variation
>>> p, q = [0.5, 0.5], [0.25, 0.75]
>>> round(total_variation(p, q), 6), round(kl(p, q), 6)
(0.25, 0.143841)

What is the least KL divergence at total variation 0.25, over all distributions? Pinsker's inequality says 0.125:

>>> from dprounds.divergences import joint_range
>>> least = joint_range(total_variation, kl).least(0.25)
>>> round(least.value, 6)
0.126797

And which pair has it?

>>> round(total_variation(least.p, least.q), 9), round(kl(least.p, least.q), 6)
(0.25, 0.126797)
"""

from dprounds.divergences.family import (
    Divergence,
    chi_alpha,
    chi_squared,
    hockey_stick,
    jensen_shannon,
    kl,
    le_cam,
    renyi,
    reverse_kl,
    squared_hellinger,
    total_variation,
)
from dprounds.divergences.generator import f_divergence
from dprounds.divergences.joint_range import BoundaryPoint, JointRange, Region, joint_range

__all__ = [
    "BoundaryPoint",
    "Divergence",
    "JointRange",
    "Region",
    "chi_alpha",
    "chi_squared",
    "f_divergence",
    "hockey_stick",
    "jensen_shannon",
    "joint_range",
    "kl",
    "le_cam",
    "renyi",
    "reverse_kl",
    "squared_hellinger",
    "total_variation",
]
