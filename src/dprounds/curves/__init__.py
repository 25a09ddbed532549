"""The numbers behind pictures: epsilon over rounds, the privacy profile, the trade-off, the joint range.

>>> from dprounds import Gaussian, curves
>>> curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=1000, points=5)
>>> curve.rounds.tolist()
[1, 17, 126, 422, 1000]
>>> {method: round(float(epsilons[-1]), 3) for method, epsilons in curve.epsilon.items()}
{'moments': 8.837, 'balle': 8.078, 'closed-form': 8.078, 'optimal': 8.078, 'exact': 7.511}

A picture asks one question at many points. So that a page can draw while someone moves a slider, the points share what
they can: all of them one row of Rényi orders, and neighbours one line of the exact accountant. Every value is still a
proven upper bound, within a thousandth of the one that the run answers by itself; for a number to publish ask the run.
What a picture draws between two points is not proven: there are enough of them that it differs by less than one sees.
"""

from dprounds.curves.attack import TradeOffCurve, trade_off_curve
from dprounds.curves.excess import ExcessCurve, compared_sizes, excess_over_epochs
from dprounds.curves.profile import ProfileCurve, privacy_profile
from dprounds.curves.ranges import JointRangePicture, conversion_picture, joint_range_picture
from dprounds.curves.rounds import RoundsCurve, epsilon_over_rounds

__all__ = [
    "ExcessCurve",
    "JointRangePicture",
    "ProfileCurve",
    "RoundsCurve",
    "TradeOffCurve",
    "compared_sizes",
    "conversion_picture",
    "epsilon_over_rounds",
    "excess_over_epochs",
    "joint_range_picture",
    "privacy_profile",
    "trade_off_curve",
]
