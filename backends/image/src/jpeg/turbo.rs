//! JPEG by libjpeg-turbo's TurboJPEG functions, which versions 1.4 to 3 have, opened at run time.

use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_ulong, c_void},
    fmt, fs,
    path::Path,
    ptr::NonNull,
};

use libloading::Library;

use super::library::LibraryError;
use crate::{error::ImageError, format::Format};

type Handle = *mut c_void;
type InitDecompress = unsafe extern "C" fn() -> Handle;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type ReadHeader = unsafe extern "C" fn(
    Handle,
    *const c_uchar,
    c_ulong,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;
type Decompress = unsafe extern "C" fn(
    Handle,
    *const c_uchar,
    c_ulong,
    *mut c_uchar,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;
type ErrorText = unsafe extern "C" fn(Handle) -> *mut c_char;
type ErrorCode = unsafe extern "C" fn(Handle) -> c_int;

/// Three bytes: red, green, blue.
const RGB: c_int = 0;
/// Four bytes: the inks as the file has them.
const CMYK: c_int = 11;
/// What `tjGetErrorCode` says where the image was decoded in spite of what is wrong with it.
const WARNING: c_int = 0;

/// The functions of the library, which stay open as long as this lives.
pub(super) struct Turbo {
    name: String,
    init: InitDecompress,
    destroy: Destroy,
    read_header: ReadHeader,
    decompress: Decompress,
    error_text: ErrorText,
    error_code: ErrorCode,
    _library: Library,
}

impl fmt::Debug for Turbo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Turbo({})", self.name)
    }
}

impl Turbo {
    pub(super) fn open(file: &Path) -> Result<Turbo, LibraryError> {
        let error = |problem: libloading::Error| LibraryError {
            file: file.display().to_string(),
            problem: problem.to_string(),
        };
        // SAFETY: the library's initialisers are those of libjpeg-turbo, which has none; another file of its name is
        // the operator's doing, as with every library that the program loads.
        let library = unsafe { Library::new(file) }.map_err(error)?;
        // SAFETY: the types are those of turbojpeg.h, which have been the same since version 1.4. The functions are
        // kept beside the library, so that they do not outlive it.
        let turbo = unsafe {
            Turbo {
                name: String::new(),
                init: *library.get::<InitDecompress>(b"tjInitDecompress\0").map_err(error)?,
                destroy: *library.get::<Destroy>(b"tjDestroy\0").map_err(error)?,
                read_header: *library.get::<ReadHeader>(b"tjDecompressHeader3\0").map_err(error)?,
                decompress: *library.get::<Decompress>(b"tjDecompress2\0").map_err(error)?,
                error_text: *library.get::<ErrorText>(b"tjGetErrorStr2\0").map_err(error)?,
                error_code: *library.get::<ErrorCode>(b"tjGetErrorCode\0").map_err(error)?,
                _library: library,
            }
        };
        let version = version(file).map(|it| format!("libjpeg-turbo {it}"));
        Ok(Turbo { name: version.unwrap_or_else(|| "libjpeg-turbo".to_owned()), ..turbo })
    }

    /// `libjpeg-turbo 2.1.5`; without a number where the library's file does not say it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// `out` has three bytes for each pixel of the size that the header says.
    pub(super) fn decode_rgb(
        &self,
        bytes: &[u8],
        size: (u32, u32),
        out: &mut [u8],
    ) -> Result<(), ImageError> {
        self.decode(bytes, size, out, RGB, 3)
    }

    /// `out` has four bytes for each pixel. Inks are as the file has them, which is often inverted.
    pub(super) fn decode_cmyk(
        &self,
        bytes: &[u8],
        size: (u32, u32),
        out: &mut [u8],
    ) -> Result<(), ImageError> {
        self.decode(bytes, size, out, CMYK, 4)
    }

    fn decode(
        &self,
        bytes: &[u8],
        (width, height): (u32, u32),
        out: &mut [u8],
        format: c_int,
        channels: usize,
    ) -> Result<(), ImageError> {
        let broken = |problem: &str| ImageError::broken(Format::Jpeg, problem);
        let too_large = |_| broken("its size overflows");
        let (width, height) =
            (i32::try_from(width).map_err(too_large)?, i32::try_from(height).map_err(too_large)?);
        assert_eq!(out.len(), width as usize * height as usize * channels, "room for all pixels");
        // SAFETY: takes nothing, and gives a handle or null.
        let handle = NonNull::new(unsafe { (self.init)() });
        let handle =
            Decompressor { turbo: self, handle: handle.ok_or_else(|| broken("out of memory"))? };
        let (mut found_width, mut found_height, mut sampling, mut space) = (0, 0, 0, 0);
        // SAFETY: `bytes` is as long as is said, and the numbers outlive the call.
        unsafe {
            // It also fails for a sampling without a name, which `decompress` does not ask about. The size is set then.
            (self.read_header)(
                handle.handle.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as c_ulong,
                &mut found_width,
                &mut found_height,
                &mut sampling,
                &mut space,
            )
        };
        if (found_width, found_height) != (width, height) {
            return Err(broken(&handle.problem()));
        }
        // SAFETY: `out` has room for `height` rows of `width` pixels of `channels` bytes, which are at most those that
        // are written: a file of another size is scaled to what fits, or refused.
        let status = unsafe {
            (self.decompress)(
                handle.handle.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as c_ulong,
                out.as_mut_ptr(),
                width,
                0,
                height,
                format,
                0,
            )
        };
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the handle is valid.
        let is_warning = unsafe { (self.error_code)(handle.handle.as_ptr()) } == WARNING;
        let problem = handle.problem();
        // Pillow takes no notice of warnings either.
        if is_warning { Ok(()) } else { Err(broken(&problem)) }
    }
}

/// A handle of the library, for one image.
struct Decompressor<'a> {
    turbo: &'a Turbo,
    handle: NonNull<c_void>,
}

impl Decompressor<'_> {
    fn problem(&self) -> String {
        // SAFETY: the text lies in the handle and ends with zero; it is copied before the handle is used again.
        let text = unsafe { CStr::from_ptr((self.turbo.error_text)(self.handle.as_ptr())) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for Decompressor<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `init` and destroyed once.
        unsafe { (self.turbo.destroy)(self.handle.as_ptr()) };
    }
}

/// The version that the library's file says of itself. There is no function for it.
fn version(file: &Path) -> Option<String> {
    const SAID: &[u8] = b"libjpeg-turbo version ";
    let name = file.file_name()?.to_str()?;
    // The loader may have found it in any folder: the list of what is mapped says in which.
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let stem = name.split(".so").next()?;
    let path = maps.lines().filter_map(|it| it.split_once('/')).map(|(_, path)| format!("/{path}"));
    let path =
        path.into_iter().find(|it| it.rsplit('/').next().is_some_and(|it| it.starts_with(stem)))?;
    let bytes = fs::read(path).ok()?;
    let at = bytes.windows(SAID.len()).position(|it| it == SAID)? + SAID.len();
    let text: Vec<u8> =
        bytes[at..].iter().copied().take_while(|it| it.is_ascii_digit() || *it == b'.').collect();
    String::from_utf8(text).ok().filter(|it| !it.is_empty())
}
