from .combination import combine_with_experiment as combine_with_experiment
from .fit_check import check_fit as check_fit
from .holdouts import holdout_effects as holdout_effects
from .plans import plan_holdout as plan_holdout
