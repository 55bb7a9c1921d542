//! A device of wgpu: buffers, pipelines, dispatches, and what goes wrong with them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytemuck::NoUninit;

use super::shader::{Binding, Shader};
use super::{Adapter, Limits, Wgpu};
use crate::error::{Error, Result};

/// The value of a future of wgpu, which outside of a browser is there at once.
pub(super) fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[derive(Debug)]
pub(super) struct Driver {
    adapter: Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// By the name of the shader, its size and its entry point.
    pipelines: Mutex<HashMap<(&'static str, u32, &'static str), wgpu::ComputePipeline>>,
    /// Why the device does not work any more.
    lost: Arc<Mutex<Option<String>>>,
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Memory {
    buffer: wgpu::Buffer,
    n_bytes: u64,
}

/// A dispatch of one entry point.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) shader: &'static Shader,
    /// See [`Shader::text`].
    pub(super) size: u32,
    pub(super) entry: &'static str,
    /// One for each binding of the shader.
    pub(super) memory: &'a [&'a Memory],
    /// Workgroups; a shader numbers them through two dimensions, and may find more than these.
    pub(super) workgroups: u32,
}

impl Driver {
    pub(super) fn open((handle, adapter): (wgpu::Adapter, Adapter)) -> Result<Self> {
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("hunkwise"),
            required_limits: handle.limits(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = now(handle.request_device(&descriptor));
        let unavailable = |reason: String| Error::Unavailable { what: adapter.to_string(), reason };
        let (device, queue) = opened
            .ok_or_else(|| unavailable("it did not answer".to_string()))?
            .map_err(|e| unavailable(e.to_string()))?;
        let lost = Arc::new(Mutex::new(None));
        let slot = lost.clone();
        device.set_device_lost_callback(move |reason, text| {
            let text = text.trim();
            let why = if text.is_empty() { format!("{reason:?}") } else { text.to_string() };
            give_up(&slot, format!("the device is lost: {why}"));
        });
        // All calls stand inside error scopes; what comes from elsewhere must not end the process.
        let slot = lost.clone();
        device.on_uncaptured_error(Arc::new(move |error| give_up(&slot, words(&error))));
        Ok(Driver { adapter, device, queue, pipelines: Mutex::default(), lost })
    }

    pub(super) fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    pub(super) fn limits(&self) -> Limits {
        self.adapter.limits
    }

    pub(super) fn close(&self) {
        give_up(&self.lost, "the device has been closed".to_string());
        self.device.destroy();
    }

    fn failed(&self, what: String) -> Error {
        Error::Device { device: self.adapter.name.clone(), what }
    }

    fn check_lost(&self) -> Result<()> {
        match &*self.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(self.failed(format!("{why}; open the device again"))),
            None => Ok(()),
        }
    }

    /// Makes calls, and turns what wgpu says about them into an error.
    fn checked<T>(&self, calls: impl FnOnce() -> T) -> Result<T> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        self.check_lost()?;
        let scopes =
            [OutOfMemory, Validation, Internal].map(|filter| self.device.push_error_scope(filter));
        let value = calls();
        // The innermost scope goes first.
        let errors = scopes.into_iter().rev().filter_map(|scope| now(scope.pop()).flatten());
        match errors.last() {
            Some(error) => Err(self.failed(words(&error))),
            None => self.check_lost().map(|()| value),
        }
    }

    fn buffer(&self, n_bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: n_bytes,
            usage,
            mapped_at_creation: false,
        })
    }

    fn pipeline(&self, step: &Step<'_>) -> Result<wgpu::ComputePipeline> {
        let key = (step.shader.name, step.size, step.entry);
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = pipelines.get(&key) {
            return Ok(pipeline.clone());
        }
        let pipeline = self.checked(|| self.compile(step))?;
        pipelines.insert(key, pipeline.clone());
        Ok(pipeline)
    }

    fn compile(&self, step: &Step<'_>) -> wgpu::ComputePipeline {
        let entries = step.shader.bindings.iter().zip(0..).map(|(kind, binding)| {
            let ty = match kind {
                Binding::Parameters => wgpu::BufferBindingType::Uniform,
                Binding::Read => wgpu::BufferBindingType::Storage { read_only: true },
                Binding::Write => wgpu::BufferBindingType::Storage { read_only: false },
            };
            wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty,
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }
        });
        let entries: Vec<_> = entries.collect();
        let bindings = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(step.shader.name),
            entries: &entries,
        });
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(step.shader.name),
            bind_group_layouts: &[Some(&bindings)],
            immediate_size: 0,
        });
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(step.shader.name),
            source: wgpu::ShaderSource::Wgsl(step.shader.text(step.size).into()),
        });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(step.entry),
            layout: Some(&layout),
            module: &module,
            entry_point: Some(step.entry),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn bind(&self, pipeline: &wgpu::ComputePipeline, memory: &[&Memory]) -> wgpu::BindGroup {
        let entries: Vec<_> = memory
            .iter()
            .zip(0..)
            .map(|(memory, binding)| wgpu::BindGroupEntry {
                binding,
                resource: memory.buffer.as_entire_binding(),
            })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        })
    }

    /// Does the steps in order, and waits for the first `n_bytes` of each memory asked for.
    fn submit(
        &self,
        steps: &[Step<'_>],
        reads: &[(&Memory, u64)],
        limits: Limits,
    ) -> Result<Vec<Vec<u32>>> {
        let pipelines: Vec<_> =
            steps.iter().map(|step| self.pipeline(step)).collect::<Result<_>>()?;
        let (sender, receiver) = mpsc::channel();
        let (staging, submission) = self.checked(|| {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            for (step, pipeline) in steps.iter().zip(&pipelines) {
                let bound = self.bind(pipeline, step.memory);
                let x = step.workgroups.min(limits.workgroups);
                let y = step.workgroups.div_ceil(x.max(1));
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, &bound, &[]);
                pass.dispatch_workgroups(x, y, 1);
            }
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let staging: Vec<_> =
                reads.iter().map(|&(_, n_bytes)| self.buffer(n_bytes.max(4), usage)).collect();
            for (to, &(memory, n_bytes)) in staging.iter().zip(reads) {
                encoder.copy_buffer_to_buffer(&memory.buffer, 0, to, 0, n_bytes);
            }
            let submission = self.queue.submit([encoder.finish()]);
            for buffer in &staging {
                let sender = sender.clone();
                buffer.map_async(wgpu::MapMode::Read, .., move |mapped| {
                    // Nobody listens any more when the wait has failed.
                    let _ = sender.send(mapped.is_ok());
                });
            }
            (staging, submission)
        })?;
        self.wait(submission, limits.timeout)?;
        let mut values = Vec::with_capacity(reads.len());
        for (buffer, &(_, n_bytes)) in staging.iter().zip(reads) {
            // The callback may still run in another thread that waits for this device.
            if !receiver.recv_timeout(limits.timeout).unwrap_or(false) {
                self.check_lost()?;
                return Err(self.failed("a result could not be read back".to_string()));
            }
            let view = buffer.get_mapped_range(..).map_err(|e| self.failed(e.to_string()))?;
            values.push(bytemuck::pod_collect_to_vec(&view[..n_bytes as usize]));
        }
        Ok(values)
    }

    fn wait(&self, submission: wgpu::SubmissionIndex, timeout: Duration) -> Result<()> {
        let poll =
            wgpu::PollType::Wait { submission_index: Some(submission), timeout: Some(timeout) };
        // wgpu panics where the driver fails during the wait.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => self.check_lost(),
            Ok(Err(wgpu::PollError::Timeout)) => {
                give_up(&self.lost, format!("no result within {} s", timeout.as_secs_f64()));
                self.check_lost()
            }
            Ok(Err(e)) => Err(self.failed(e.to_string())),
            Err(_) => {
                give_up(&self.lost, "the driver failed while it was waited for".to_string());
                self.check_lost()
            }
        }
    }
}

/// The first reason stays.
fn give_up(lost: &Mutex<Option<String>>, why: String) {
    lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
}

fn words(error: &wgpu::Error) -> String {
    match error {
        wgpu::Error::OutOfMemory { .. } => "out of memory; give less at a time".to_string(),
        wgpu::Error::Validation { description, .. } => format!("refused: {}", description.trim()),
        wgpu::Error::Internal { description, .. } => format!("failed: {}", description.trim()),
    }
}

/// What the operations use. Sizes are those of storage buffers, which the caller has cut to the limits.
impl Wgpu {
    /// A copy of an array on the device.
    pub(super) fn upload<T: NoUninit>(&self, values: &[T]) -> Result<Memory> {
        use wgpu::BufferUsages as Usages;
        self.upload_for(bytemuck::cast_slice(values), Usages::STORAGE | Usages::COPY_SRC)
    }

    /// The parameters of a shader.
    pub(super) fn parameters<T: NoUninit>(&self, values: &T) -> Result<Memory> {
        self.upload_for(bytemuck::bytes_of(values), wgpu::BufferUsages::UNIFORM)
    }

    fn upload_for(&self, bytes: &[u8], usage: wgpu::BufferUsages) -> Result<Memory> {
        let memory = self.memory(bytes.len() as u64, usage | wgpu::BufferUsages::COPY_DST)?;
        self.driver.checked(|| {
            let whole = bytes.len() & !3;
            self.driver.queue.write_buffer(&memory.buffer, 0, &bytes[..whole]);
            if whole < bytes.len() {
                let mut last = [0; 4];
                last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
                self.driver.queue.write_buffer(&memory.buffer, whole as u64, &last);
            }
        })?;
        Ok(memory)
    }

    /// Zeros on the device.
    pub(super) fn zeros(&self, n_bytes: u64) -> Result<Memory> {
        use wgpu::BufferUsages as Usages;
        self.memory(n_bytes, Usages::STORAGE | Usages::COPY_SRC | Usages::COPY_DST)
    }

    /// Replaces the first words, once the work given so far is done.
    pub(super) fn overwrite(&self, memory: &Memory, words: &[u32]) -> Result<()> {
        let bytes = bytemuck::cast_slice(words);
        self.driver.checked(|| self.driver.queue.write_buffer(&memory.buffer, 0, bytes))
    }

    fn memory(&self, n_bytes: u64, usage: wgpu::BufferUsages) -> Result<Memory> {
        let limit = self.limits.binding_bytes;
        if n_bytes > limit {
            return Err(Error::Limit {
                op: "wgpu",
                what: "one array on the device (bytes)",
                needed: n_bytes,
                limit,
                advice: "give less at a time, or use Device::cpu()",
            });
        }
        // A binding has at least one element.
        let n_bytes = n_bytes.next_multiple_of(4).max(16);
        let buffer = self.driver.checked(|| self.driver.buffer(n_bytes, usage))?;
        Ok(Memory { buffer, n_bytes })
    }

    /// Does the steps in order, and gives the first `n_bytes` of each memory asked for.
    pub(super) fn run(
        &self,
        steps: &[Step<'_>],
        reads: &[(&Memory, u64)],
    ) -> Result<Vec<Vec<u32>>> {
        debug_assert!(reads.iter().all(|(memory, n)| *n <= memory.n_bytes && n % 4 == 0));
        self.driver.submit(steps, reads, self.limits)
    }
}
