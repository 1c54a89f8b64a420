from .checks import doctor as doctor
