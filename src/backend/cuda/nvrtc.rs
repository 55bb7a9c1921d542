//! NVRTC: from a source of `kernels/` to a cubin for one architecture, kept on disk.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::driver::{HEADERS, Source};
use crate::error::{Error, Result};

/// Also in `dev/compile_kernels.py`, which compiles every kernel for every architecture.
const OPTIONS: [&CStr; 3] = [c"--std=c++17", c"--fmad=false", c"-default-device"];

type Program = *mut c_void;

/// The functions of the library that are used.
struct Nvrtc {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    /// Keeps the functions where they are.
    _library: Library,
}

/// The cubin of a source for an architecture such as `sm_90a`; compiled, or from the folder of earlier ones.
///
/// # Errors
/// [`Error::Unavailable`] where it has to be compiled and NVRTC is not there, [`Error::Device`] when it does not compile.
pub(super) fn cubin(source: &Source, architecture: &str) -> Result<Vec<u8>> {
    let kept = cache_folder().map(|folder| folder.join(file_name(source, architecture)));
    if let Some(cubin) = kept.as_deref().and_then(read_kept) {
        return Ok(cubin);
    }
    let cubin = compile(source, architecture)?;
    if let Some(path) = kept {
        // What cannot be kept is compiled again next time.
        let _ = keep(&path, &cubin);
    }
    Ok(cubin)
}

fn compile(source: &Source, architecture: &str) -> Result<Vec<u8>> {
    let nvrtc = nvrtc()?;
    let owned = |text: &str| CString::new(text).map_err(|e| failed(source, e.to_string()));
    let (text, name) = (owned(source.text)?, owned(source.name)?);
    let texts = HEADERS.iter().map(|header| owned(header.text)).collect::<Result<Vec<_>>>()?;
    let names = HEADERS.iter().map(|header| owned(header.name)).collect::<Result<Vec<_>>>()?;
    let header_texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let header_names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let architecture = owned(&format!("--gpu-architecture={architecture}"))?;
    let mut options: Vec<*const c_char> = OPTIONS.iter().map(|option| option.as_ptr()).collect();
    options.push(architecture.as_ptr());
    let mut program: Program = ptr::null_mut();
    // SAFETY: all strings end with NUL and outlive the program, which is destroyed once; sizes are asked for before the
    // buffers are made.
    unsafe {
        let status = (nvrtc.create)(
            &mut program,
            text.as_ptr(),
            name.as_ptr(),
            HEADERS.len() as c_int,
            header_texts.as_ptr(),
            header_names.as_ptr(),
        );
        if status != 0 {
            return Err(failed(source, format!("nvrtcCreateProgram gave {status}")));
        }
        let status = (nvrtc.compile)(program, options.len() as c_int, options.as_ptr());
        let log = bytes_of(program, nvrtc.log_size, nvrtc.log);
        let cubin = bytes_of(program, nvrtc.cubin_size, nvrtc.cubin);
        (nvrtc.destroy)(&mut program);
        match (status, cubin) {
            (0, Ok(cubin)) => Ok(cubin),
            (0, Err(status)) => Err(failed(source, format!("nvrtcGetCUBIN gave {status}"))),
            _ => {
                Err(failed(source, String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()))
            }
        }
    }
}

/// # Safety
/// `program` is one of NVRTC's, and `get` writes as many bytes as `size` says.
unsafe fn bytes_of(
    program: Program,
    size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
) -> Result<Vec<u8>, c_int> {
    let mut n = 0;
    // SAFETY: as the caller promises.
    let status = unsafe { size(program, &mut n) };
    if status != 0 {
        return Err(status);
    }
    let mut bytes = vec![0u8; n];
    // SAFETY: as the caller promises.
    match unsafe { get(program, bytes.as_mut_ptr().cast()) } {
        0 => Ok(bytes),
        status => Err(status),
    }
}

fn failed(source: &Source, what: String) -> Error {
    Error::Device { device: "NVRTC".to_string(), what: format!("{}: {what}", source.name) }
}

fn nvrtc() -> Result<&'static Nvrtc> {
    static LOADED: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(|reason| Error::Unavailable {
        what: "NVRTC, which compiles the CUDA kernels,".to_string(),
        reason: reason.clone(),
    })
}

fn load() -> Result<Nvrtc, String> {
    let candidates = candidates();
    for name in &candidates {
        // SAFETY: NVRTC's initialisers have no requirements.
        let Ok(library) = (unsafe { Library::new(name) }) else { continue };
        return functions(library)
            .map_err(|e| format!("{} is not NVRTC 11.1 or later: {e}", name.to_string_lossy()));
    }
    let names: Vec<_> = candidates.iter().map(|name| name.to_string_lossy()).collect();
    Err(format!(
        "none of {} could be loaded; `pip install nvidia-cuda-nvrtc`, or name the library in HUNKWISE_NVRTC",
        names.join(", ")
    ))
}

fn functions(library: Library) -> Result<Nvrtc, libloading::Error> {
    // SAFETY: the types are those of nvrtc.h, unchanged since CUDA 11.1; the library is kept beside the functions.
    unsafe {
        Ok(Nvrtc {
            version: *library.get(b"nvrtcVersion\0")?,
            create: *library.get(b"nvrtcCreateProgram\0")?,
            compile: *library.get(b"nvrtcCompileProgram\0")?,
            destroy: *library.get(b"nvrtcDestroyProgram\0")?,
            log_size: *library.get(b"nvrtcGetProgramLogSize\0")?,
            log: *library.get(b"nvrtcGetProgramLog\0")?,
            cubin_size: *library.get(b"nvrtcGetCUBINSize\0")?,
            cubin: *library.get(b"nvrtcGetCUBIN\0")?,
            _library: library,
        })
    }
}

/// Where NVRTC may be, best first: the one that is named, a toolkit's, those that pip installs, the system's.
fn candidates() -> Vec<OsString> {
    let mut found: Vec<OsString> = std::env::var_os("HUNKWISE_NVRTC").into_iter().collect();
    for toolkit in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(root) = std::env::var_os(toolkit) {
            found.extend(libraries(&Path::new(&root).join("lib64")));
        }
    }
    for environment in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(root) = std::env::var_os(environment) else { continue };
        for python in folders(&Path::new(&root).join("lib"), "python3") {
            let nvidia = python.join("site-packages/nvidia");
            found.extend(
                folders(&nvidia, "cu").iter().flat_map(|cuda| libraries(&cuda.join("lib"))),
            );
        }
    }
    found.extend(libraries(Path::new("/usr/local/cuda/lib64")));
    found.extend(["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(OsString::from));
    found
}

/// The NVRTC libraries of a folder, newest first.
fn libraries(folder: &Path) -> Vec<OsString> {
    let mut found: Vec<OsString> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("libnvrtc.so"))
        .map(|entry| entry.path().into_os_string())
        .collect();
    found.sort();
    found.reverse();
    found
}

fn folders(parent: &Path, start: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.reverse();
    found
}

/// `HUNKWISE_CACHE`, or a folder of the user's cache; none where there is no home.
fn cache_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HUNKWISE_CACHE") {
        return Some(folder.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&std::env::var_os("HOME")?).join(".cache"),
    };
    Some(cache.join("hunkwise"))
}

/// A name for each (source, options, architecture, compiler): a change of any of them is another file.
fn file_name(source: &Source, architecture: &str) -> String {
    let (mut major, mut minor) = (0, 0);
    if let Ok(nvrtc) = nvrtc() {
        // SAFETY: both are integers to be written.
        unsafe { (nvrtc.version)(&mut major, &mut minor) };
    }
    let options = OPTIONS.map(|option| option.to_string_lossy()).join(" ");
    // An end mark after each: bytes that move from one text to the next change the name.
    let texts = HEADERS.iter().map(|header| header.text).chain([source.text, options.as_str()]);
    let hash = fnv1a(texts.flat_map(|text| text.bytes().chain([0xFF])));
    format!("{}-{architecture}-{major}.{minor}-{hash:016x}.cubin", source.name)
}

/// FNV-1a in 64 bits.
fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A kept cubin; `None` for a file that is not a whole one.
fn read_kept(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (cubin, sum) = bytes.split_last_chunk::<8>()?;
    (fnv1a(cubin.iter().copied()).to_le_bytes() == *sum).then(|| cubin.to_vec())
}

/// Written beside and renamed: a process that reads at the same time sees a whole file or none.
fn keep(path: &Path, cubin: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(cubin)?;
    file.write_all(&fnv1a(cubin.iter().copied()).to_le_bytes())?;
    file.persist(path)?;
    Ok(())
}
